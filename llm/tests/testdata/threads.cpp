// Prints how many threads llm/binding/threads.h has compute each decode, of 20 ms of a clock of its own, in three
// phases of 30 s: alone, beside programs that leave two processors of eight, and alone again.
#include "../../binding/threads.h"

#include <cstdio>

int main() {
    slc::ThreadCount count;
    int64_t now = 0;
    for (int phase = 0; phase < 3; phase++) {
        for (int i = 0; i < 1500; i++) {
            const int threads = count.at(now, 8);
            const int64_t wall = 20'000;
            // Each thread but one waits; one decode in ten is disturbed by something short.
            double share = i % 10 ? .01 : .3;
            if (phase == 1 && threads > 2) {
                share = 1 - 2. / threads;
            }
            now += wall;
            count.took(now, threads, wall, (int64_t) (share * wall * (threads - 1)));
            printf("%d\n", threads);
        }
    }
}
