/*
 * gate FIFO LAST BYTES ID prints BYTES bytes. Unless LAST is 0, task 1 waits with
 * that until task LAST has come: so all between have ended while it was still
 * there.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
	static char block[1 << 16];
	char c = 0;
	int fd;

	if (argc != 5)
		return 2;
	if (strcmp(argv[2], "0") != 0 && strcmp(argv[4], "1") == 0) {
		if ((fd = open(argv[1], O_RDONLY)) < 0 || read(fd, &c, 1) != 1)
			return 1;
	} else if (strcmp(argv[4], argv[2]) == 0) {
		if ((fd = open(argv[1], O_WRONLY)) < 0 || write(fd, &c, 1) != 1)
			return 1;
	}
	memset(block, 'x', sizeof block);
	for (long left = atol(argv[3]); left > 0;) {
		ssize_t n = write(1, block, left < (long)sizeof block ? left : (long)sizeof block);
		if (n < 0)
			return 1;
		left -= n;
	}
	return 0;
}
