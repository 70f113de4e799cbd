"""The mutants of kernels/forward/wgmma at head dimensions above 256: messages between the warpgroups that share rows, and values
that are read with keys."""

from table import RACE, STALE, WRONG, Mutant

FOLDER = "forward/wgmma/"
SHARED = RACE + r"\((ld|st)\.shared"


def shared(name, file, old, new, expected=WRONG, test="ManyTilesOf512Columns"):
    return Mutant(name, ("90a", "wgmma", "bf16", "512"), FOLDER + file, old, new, expected, test=f"Wgmma.{test}", program="cuda",
                  device="sm_90a:sms=2", entry="plain")  # fmt: skip


def latent(name, file, old, new, expected=WRONG):
    return Mutant(name, ("90a", "wgmma", "bf16", "576"), FOLDER + file, old, new, expected, test="Wgmma.LatentValuesOfBf16",
                  program="cuda", device="sm_90a:sms=2", entry="narrow")  # fmt: skip


SHARED_ROWS = [
    shared("keys_of_a_partner", "products.cuh", "return (B::group() ^ part) * B::own_keys;", "return part * B::own_keys;"),
    shared("maxima_of_partners", "softmax.cuh", "partner.max(s.row_max())", "s.row_max()"),
    shared("vote_of_partners", "softmax.cuh", "partner.any(__any_sync(~0u, moved))", "__any_sync(~0u, moved)", WRONG + "|" + SHARED + "|deadlock",
           "ManyTilesWithOneLargeScoreOf512Columns"),
    shared("sums_of_partners", "store.cuh", "partner.sum(online.l[r])", "online.l[r]"),
    shared("values_of_partners", "store.cuh", "partner.sum(zero)", "zero", WRONG + "|" + SHARED + "|deadlock",
           "ManyTilesWithOneLargeScoreOf512Columns"),
    shared("results_before_special_values", "store.cuh", "    partner.sync();\n", "", r"race: (reads|writes) global memory|" + WRONG,
           "ManyTilesWithOneLargeScoreOf512Columns"),
    shared("columns_of_a_partner", "store.cuh", "B::first_column() / 8 + 4 * i", "4 * i", WRONG + "|race"),
    shared("first_key_of_a_mask", "consumer.cuh", "tile * B::keys + B::first_key() + B::Scores::first_column(lane());\n    unroll",
           "tile * B::keys + B::Scores::first_column(lane());\n    unroll"),
    shared("messages_at_one_place", "partner.cuh", "      messages_ = 2 * shared_.messages + 2 * B::message_bytes - messages_;\n", "      {}\n", SHARED),
    latent("messages_still_read", "partner.cuh", "    else\n      sync();\n", "", SHARED),
    latent("values_released_with_keys", "consumer.cuh", "    if (!B::values_in_keys && leads()) mbarrier_arrive", "    if (leads()) mbarrier_arrive",
           STALE + r"|arrivals at an mbarrier"),
]
