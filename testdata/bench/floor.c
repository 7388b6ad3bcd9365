/*
 * floor WORKERS TASKS COMMAND [ARG...] is about the least that a parallel runner
 * can do: for each task 1..TASKS a pipe, vfork, exec, read to the end, wait; the
 * output is written in one block. "{}" in an ARG stands for the task's number.
 * There is no input, no order, no process group, no stderr and no error handling.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static char **command;
static int words;
static long tasks;
static long next;
static int null;
static pthread_mutex_t screen = PTHREAD_MUTEX_INITIALIZER;

static char *expand(char *word, long id) {
	char *hit = strstr(word, "{}"), *full;
	if (!hit)
		return word;
	if (asprintf(&full, "%.*s%ld%s", (int)(hit - word), word, id, hit + 2) < 0)
		abort();
	return full;
}

static void *worker(void *unused) {
	size_t room = 1 << 16;
	char *buf = malloc(room), **argv = calloc(words + 1, sizeof *argv);
	long id;
	(void)unused;
	while ((id = __atomic_add_fetch(&next, 1, __ATOMIC_RELAXED)) <= tasks) {
		int fd[2];
		size_t len = 0;
		ssize_t n;
		for (int i = 0; i < words; i++)
			argv[i] = expand(command[i], id);
		if (pipe2(fd, O_CLOEXEC) < 0)
			abort();
		pid_t pid = vfork();
		if (pid == 0) {
			dup2(null, 0);
			dup2(fd[1], 1);
			execve(argv[0], argv, environ);
			_exit(127);
		}
		close(fd[1]);
		while ((n = read(fd[0], buf + len, room - len)) > 0)
			if ((len += n) == room)
				buf = realloc(buf, room *= 2);
		close(fd[0]);
		waitpid(pid, NULL, 0);
		for (int i = 0; i < words; i++)
			if (argv[i] != command[i])
				free(argv[i]);
		if (len == 0)
			continue;
		pthread_mutex_lock(&screen);
		for (size_t at = 0; at < len; at += n)
			if ((n = write(1, buf + at, len - at)) < 0)
				abort();
		pthread_mutex_unlock(&screen);
	}
	return NULL;
}

int main(int argc, char **argv) {
	if (argc < 4)
		return 2;
	int workers = atoi(argv[1]);
	tasks = atol(argv[2]);
	command = argv + 3;
	words = argc - 3;
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	pthread_t *thread = calloc(workers, sizeof *thread);
	for (int i = 0; i < workers; i++)
		pthread_create(&thread[i], NULL, worker, NULL);
	for (int i = 0; i < workers; i++)
		pthread_join(thread[i], NULL);
	return 0;
}
