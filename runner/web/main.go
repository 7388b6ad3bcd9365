package web

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"syscall"

	"crew/runner/task"
)

// protocol is wiring.WebProtocol.
const protocol = 1

// Main is the main function of crew-web, but that it returns the exit status.
func Main(args []string) int {
	err := do(args[1:])
	switch {
	case err == nil:
		return 0
	case len(args) > 2 && args[2] == "record":
		fmt.Println(task.Printable(err.Error())) // crew tells it
	default:
		fmt.Fprintln(os.Stderr, "crew: "+task.Printable(err.Error()))
	}
	return 1
}

// do carries out what crew asks for.
func do(args []string) error {
	if len(args) < 2 || args[0] == "" || args[0][0] < '0' || args[0][0] > '9' {
		return errors.New("crew-web is started by crew: write crew report, crew web, or crew --report FILE")
	}
	if args[0] != strconv.Itoa(protocol) {
		return fmt.Errorf("crew speaks version %s of its protocol and crew-web version %d: install both from the same source", args[0], protocol)
	}
	switch verb, args := args[1], args[2:]; {
	case verb == "report" && len(args) > 1:
		return report(args[0] == "trace", args[1:])
	case verb == "record" && len(args) == 2:
		signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT) // the run ends first
		return record(args[0], args[1])
	case verb == "web" && len(args) == 2:
		ends := slices.DeleteFunc([]os.Signal{syscall.SIGINT, syscall.SIGHUP}, signal.Ignored) // by nohup
		ctx, stop := signal.NotifyContext(context.Background(), append(ends, syscall.SIGTERM)...)
		defer stop()
		return Serve(ctx, Config{Listen: args[0], TokenFile: args[1], Notice: func(text string) {
			fmt.Fprintln(os.Stderr, "crew: "+task.Printable(text))
		}})
	}
	return fmt.Errorf("crew and crew-web differ about %q: install both from the same source", args[1])
}
