/* What tests are made of. EXPECT and SAME compare a call's status, or another number, with the one that is wanted: they print a
 * line for each that differs and set `wrong`. REQUIRE ends the program. */
#include <stdio.h>
#include <stdlib.h>

static int wrong;

static inline void check(int line, const char *what, long want, long got) {
    if (want != got) {
        printf("line %d: %s: %ld instead of %ld\n", line, what, got, want);
        wrong = 1;
    }
}

#define EXPECT(want, call) check(__LINE__, #call, HSAKMT_STATUS_##want, call)
#define SAME(want, got) check(__LINE__, #got, (long)(want), (long)(got))
#define REQUIRE(condition)                                      \
    do {                                                        \
        if (!(condition)) {                                     \
            printf("line %d: not " #condition "\n", __LINE__);  \
            exit(1);                                            \
        }                                                       \
    } while (0)
