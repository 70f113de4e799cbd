/* The C tests' shared case list, for the tests of the bindings: a library that any foreign-function interface can load.
 *
 * For each index a binding's test opens the case, translates what *desc and *args say into a call of its own, on the
 * very memory they point at, and lets the case judge: the library itself must give the same bits, and nothing else may
 * have been touched. Cases whose combination fa.h refuses must raise an error that holds every name of fa_case_refused.
 */
#ifndef LIBFA_BINDINGS_CASES_H
#define LIBFA_BINDINGS_CASES_H

#include <fa.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fa_case fa_case;

/* How many cases there are: each feature alone, then features in pairs; element types take turns. */
FA_API int32_t fa_cases_count(void);

/* The first so many are features alone. */
FA_API int32_t fa_cases_alone(void);

/* Builds case index, 0 .. fa_cases_count() - 1; NULL for any other. To be closed. */
FA_API fa_case *fa_case_open(int32_t index);

/* Its one line of text, which `fa run --case` repeats. Lives as long as the case. */
FA_API const char *fa_case_text(const fa_case *c);

FA_API const fa_desc *fa_case_desc(const fa_case *c);

/* Outputs hold a pattern until the binding's call writes them; workspace and stream are NULL. */
FA_API const fa_args *fa_case_args(const fa_case *c);

/* Names that the error must hold, separated by spaces; "" when the call is legal. Lives as long as the case. */
FA_API const char *fa_case_refused(const fa_case *c);

/* "" when out and lse hold the bits that the library gives for this case and no other byte was written (for a refused
 * case: when nothing was), else what is wrong. Lives until the next judgement or the end of the case. */
FA_API const char *fa_case_judge(fa_case *c);

FA_API void fa_case_close(fa_case *c);

#ifdef __cplusplus
}
#endif

#endif /* LIBFA_BINDINGS_CASES_H */
