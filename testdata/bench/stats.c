/*
 * stats reads names such as up-in/7.c from its standard input, and calls stat(2) for each
 * and for up-out/7.o: the least that it takes to see that files are up to date.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

int main(void) {
	char in[4096], out[4096];
	struct stat a, b;
	while (fgets(in, sizeof in, stdin)) {
		size_t n = strcspn(in, "\n");
		in[n] = 0;
		snprintf(out, sizeof out, "up-out%.*so", (int)n - 6, in + 5);
		if (stat(in, &a) || stat(out, &b)) {
			perror(out);
			return 1;
		}
	}
	return 0;
}
