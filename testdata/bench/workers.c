/*
 * workers WORKERS WINDOW COMMAND [ARG...] is about the least that a program can do to
 * move records through persistent workers: a thread each, with at most WINDOW records
 * in flight; a write sends all that there is room for, a read takes all answers that
 * are there, and stdout is written in large blocks. Records and answers are lines.
 * There is no order, no account of which answer belongs to which record, and no error
 * handling; WINDOW records must fit a pipe and a line 64 KiB.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { room = 1 << 16 };

extern char **environ;
static char **command;
static int window;
static pthread_mutex_t input = PTHREAD_MUTEX_INITIALIZER, output = PTHREAD_MUTEX_INITIALIZER;
static char lines[room];
static size_t from, to;

/* take moves at most n lines of the input to buf and counts them. */
static int take(int n, char *buf, size_t *len) {
	int got = 0;
	*len = 0;
	pthread_mutex_lock(&input);
	while (got < n) {
		char *end = memchr(lines + from, '\n', to - from);
		if (!end) {
			memmove(lines, lines + from, to - from);
			to -= from, from = 0;
			ssize_t k = read(0, lines + to, room - to);
			if (k <= 0)
				break;
			to += k;
			continue;
		}
		size_t k = end + 1 - (lines + from);
		if (*len + k > room)
			break;
		memcpy(buf + *len, lines + from, k);
		*len += k, from += k, got++;
	}
	pthread_mutex_unlock(&input);
	return got;
}

static void put(int fd, const char *buf, size_t len) {
	for (ssize_t k; len > 0; buf += k, len -= k)
		if ((k = write(fd, buf, len)) < 0)
			abort();
}

/* show writes whole lines and returns how many bytes it has kept for later. */
static size_t show(char *buf, size_t len) {
	char *end = memrchr(buf, '\n', len);
	size_t whole = end ? end + 1 - buf : 0;
	pthread_mutex_lock(&output);
	put(1, buf, whole);
	pthread_mutex_unlock(&output);
	memmove(buf, buf + whole, len - whole);
	return len - whole;
}

static void *worker(void *unused) {
	int in[2], out[2], flight = 0, status, more = 1;
	char *records = malloc(room), *answers = malloc(2 * room);
	size_t len, held = 0;
	pid_t pid;
	posix_spawn_file_actions_t act;
	(void)unused;
	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
		abort();
	posix_spawn_file_actions_init(&act);
	posix_spawn_file_actions_adddup2(&act, in[0], 0);
	posix_spawn_file_actions_adddup2(&act, out[1], 1);
	if (posix_spawnp(&pid, command[0], &act, NULL, command, environ))
		abort();
	close(in[0]);
	close(out[1]);
	for (;;) {
		if (more && flight < window) {
			int n = take(window - flight, records, &len);
			put(in[1], records, len);
			flight += n;
			if (n == 0)
				more = 0;
		}
		if (flight == 0)
			break;
		ssize_t k = read(out[0], answers + held, room);
		if (k <= 0)
			abort();
		for (char *p = answers + held, *end = p + k; (p = memchr(p, '\n', end - p)); p++)
			flight--;
		if ((held += k) > room)
			held = show(answers, held);
	}
	show(answers, held);
	close(in[1]);
	waitpid(pid, &status, 0);
	return NULL;
}

int main(int argc, char **argv) {
	if (argc < 4)
		return 2;
	int n = atoi(argv[1]);
	window = atoi(argv[2]);
	command = argv + 3;
	pthread_t *thread = calloc(n, sizeof *thread);
	for (int i = 0; i < n; i++)
		pthread_create(&thread[i], NULL, worker, NULL);
	for (int i = 0; i < n; i++)
		pthread_join(thread[i], NULL);
	return 0;
}
