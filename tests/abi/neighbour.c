/* Augeas' finite automata library, whose header is called <fa.h> too: compiled with its folder only. */
#include <fa.h>
#include <stddef.h>

#ifdef LIBFA_FA_H
#error "this is libfa's header, not Augeas'"
#endif

int neighbour_works(void);
int neighbour_works(void) {
  struct fa *words = NULL, *letter = NULL;
  int works = fa_compile("[a-z]+", 6, &words) == 0 && fa_compile("q", 1, &letter) == 0 && fa_contains(letter, words) == 1 &&
              fa_contains(words, letter) == 0;
  fa_free(words);
  fa_free(letter);
  return works;
}
