/*
 * meter FILE COMMAND [ARG...] runs the command and appends a line to FILE: its
 * wall time in seconds, its own processor time without its children's, that with
 * theirs, and the largest resident memory of it and them in KiB. Its status is
 * the command's.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* own is the processor time of the process itself, which has ended but still has its id: proc_pid_stat(5). */
static double own(pid_t pid) {
	char path[64], line[1024], *p = NULL;
	unsigned long user = 0, sys = 0;
	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	FILE *f = fopen(path, "r");
	if (f && fgets(line, sizeof line, f))
		for (char *q = line; *q; q++)
			if (*q == ')')
				p = q + 1;
	if (!p || sscanf(p, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &sys) != 2)
		abort();
	fclose(f);
	return (double)(user + sys) / sysconf(_SC_CLK_TCK);
}

static double seconds(struct timeval t) { return t.tv_sec + t.tv_usec / 1e6; }

int main(int argc, char **argv) {
	struct timespec from, to;
	struct rusage ru;
	siginfo_t info;
	int status;
	if (argc < 3)
		return 2;
	FILE *out = fopen(argv[1], "ae");
	if (!out)
		return 2;
	clock_gettime(CLOCK_MONOTONIC, &from);
	pid_t pid = vfork();
	if (pid == 0) {
		execvp(argv[2], argv + 2);
		_exit(127);
	}
	waitid(P_PID, pid, &info, WEXITED | WNOWAIT);
	clock_gettime(CLOCK_MONOTONIC, &to);
	double mine = own(pid);
	wait4(pid, &status, 0, &ru);
	fprintf(out, "%.6f %.2f %.6f %ld\n", (to.tv_sec - from.tv_sec) + (to.tv_nsec - from.tv_nsec) / 1e9, mine,
		seconds(ru.ru_utime) + seconds(ru.ru_stime), ru.ru_maxrss);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
