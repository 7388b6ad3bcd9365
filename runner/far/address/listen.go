package address

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// loopback is the address where a hub listens by default.
const loopback = "127.0.0.1:4222"

// Listening holds where a hub listens and how clients reach it.
type Listening struct {
	Host  string
	Port  int
	Names []string // for clients; the most likely to work come first
	TLS   bool
}

// ListenAt parses HOST:PORT, HOST or :PORT as the address of a hub; "" stands for loopback. Clients
// reach the hub by hosts or, if there are none, by host or this machine's own names. The hub uses TLS
// if it listens beyond loopback, has a certificate, or has hosts.
func ListenAt(listen string, hosts []string, certificate bool) (l Listening, err error) {
	listen = cmp.Or(listen, loopback)
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		host, port, err = strings.Trim(listen, "[]"), "4222", nil
	}
	_, notNumber := strconv.Atoi(host) // nil for a port without a colon
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || notNumber == nil || strings.Contains(host, ":") && net.ParseIP(host) == nil {
		return l, fmt.Errorf("%q is not an address to listen on: write HOST:PORT, such as %s or 0.0.0.0:4222", listen, loopback)
	}
	l.Host, l.Port = cmp.Or(host, "0.0.0.0"), int(number)
	ip := net.ParseIP(l.Host)
	if ip == nil && host != "localhost" {
		if a, err := net.ResolveIPAddr("ip", host); err != nil {
			return l, fmt.Errorf("cannot listen on %s: %w: write 0.0.0.0 and --host %[1]s", host, err)
		} else if ip = a.IP; ip.IsLoopback() {
			return l, fmt.Errorf("%s is %v on this machine, which no other machine can reach: write 0.0.0.0 and --host %[1]s", host, ip)
		}
	}
	l.TLS = !(host == "localhost" || ip.IsLoopback()) || certificate || len(hosts) > 0
	switch {
	case len(hosts) > 0:
		l.Names = hosts
	case !certificate && ip.IsUnspecified():
		l.Names, err = ownNames(ip.To4() == nil)
	default:
		l.Names = []string{l.Host}
	}
	return l, err
}

// Probe returns an error if it is not possible to listen at the address. The NATS server would not say
// why.
func (l *Listening) Probe() error {
	probe, err := net.Listen("tcp", net.JoinHostPort(l.Host, strconv.Itoa(l.Port)))
	switch {
	case errors.Is(err, syscall.EADDRNOTAVAIL): // possibly the address of a router
		return fmt.Errorf("%w: this machine does not have that address: write --listen 0.0.0.0 --host %s", err, l.Host)
	case err != nil:
		return fmt.Errorf("%w: give another --listen", err)
	}
	return probe.Close()
}

// ownNames returns the addresses of this machine that others could use, followed by its name. six
// includes IPv6 addresses.
func ownNames(six bool) (names []string, err error) {
	all, err := net.InterfaceAddrs()
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && (six || n.IP.To4() != nil) {
			names = append(names, n.IP.String())
		}
	}
	if name, _ := os.Hostname(); name != "" && name != "localhost" {
		names = append(names, name)
	}
	if len(names) == 0 && err == nil {
		err = errors.New("this machine has neither a name nor an address that others could use: give --host NAME")
	}
	return names, err
}

// URL returns the URLs by which clients reach the hub, separated by commas.
func (l *Listening) URL(port int) string {
	scheme := "nats://"
	if l.TLS {
		scheme = "tls://"
	}
	var list []string
	for _, name := range l.Names {
		list = append(list, scheme+net.JoinHostPort(name, strconv.Itoa(port)))
	}
	return strings.Join(list, ",")
}
