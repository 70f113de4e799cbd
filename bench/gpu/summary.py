"""The short table that a session prints last."""
from collections import Counter

from gpu import goals
from gpu.tools import PASSED


def first_line(text):
    return text.strip().splitlines()[-1][:140].replace("|", "/") if text and text.strip() else ""


def said(result):
    """A phase in a few words: the number of items with each status, or why it has no items."""
    counts = Counter(item["status"] for item in result["items"])
    return "; ".join(f"{count} {status}" for status, count in counts.items()) or first_line(result.get("reason", ""))


def speed_rows(values):
    rows = ["", "| B x Hq/Hkv x Sq/Sk x D | libfa ms | TFLOP/s | TB/s | of the ceiling | best peer | times as fast | spread |",
            "|---|---|---|---|---|---|---|---|"]
    for shape in values.get("shapes", []):
        ours = shape["contenders"].get("libfa", {})
        name = shape["shape"]
        if "ms" not in ours:
            rows.append(f"| {name} | {first_line(ours.get('not_measured', ''))} | | | | | | |")
            continue
        share = ours.get("of_product", ours.get("of_copy"))
        rows.append(f"| {name} | {ours['ms']:.4f} | {ours['TFLOPs']:.0f} | {ours['TBs']:.2f} | "
                    f"{'' if share is None else f'{100 * share:.0f} %'} | {shape.get('best_peer', '')} | "
                    f"{shape.get('ratio', float('nan')):.2f} | {100 * ours['spread']:.1f} % |")
    if values.get("not_begun"):
        rows.append(f"\n{values['not_begun']} shapes were not begun: the time was used up.")
    for name, facts in values.get("host", {}).items():
        rows.append(f"\nHost, a call of {name}: {facts['us']:.2f} us" if "us" in facts else f"\nHost, {name}: not measured")
    return rows if values.get("shapes") else []


def table(results, left_over=()):
    rows = ["| phase | status | seconds | items |", "|---|---|---|---|"]
    for name, result in results.items():
        rows.append(f"| {name} | {result['status']} | {result['seconds']} | {said(result)} |")
    if left_over:
        rows.append(f"\nLeft to the next call, which goes on with session.json: {', '.join(left_over)}.")
    judged = results.get("goals", {}).get("values", {}).get("goals", [])
    rows += ["", *goals.table(judged)] if judged else []
    for name in ("goals", "speed"):
        rows += speed_rows(results.get(name, {}).get("values", {}))
    troubles = [(name, item) for name, result in results.items() for item in result["items"] if item["status"] != PASSED]
    if troubles:
        rows.append("")
    for name, item in troubles[:20]:
        rows.append(f"- {name}, {item['name']}: {item['status']}: {first_line(item.get('reason') or item.get('output'))}")
    if len(troubles) > 20:
        rows.append(f"- and {len(troubles) - 20} more")
    return "\n".join(rows) + "\n"
