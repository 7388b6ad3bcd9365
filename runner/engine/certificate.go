package engine

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"crew/runner/wiring"
)

// certified is for how long a hub's own certificates hold. Whoever wants it shorter gives the
// hub one.
const certified = 20 * 365 * 24 * time.Hour

// listening says where a hub listens, and how clients find it.
type listening struct {
	host  string
	port  int
	names []string // for clients, those first that are likeliest to lead there
	tls   bool
}

// listenAt reads where a hub is to listen.
func listenAt(c *wiring.EngineCall) (l listening, err error) {
	listen := cmp.Or(c.Listen, hubListen)
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		host, port, err = strings.Trim(listen, "[]"), "4222", nil
	}
	_, number := strconv.Atoi(host) // a port alone
	if l.port, err = strconv.Atoi(port); err != nil || number == nil || l.port < 0 || l.port > 65535 || strings.Contains(host, ":") && net.ParseIP(host) == nil {
		return l, fmt.Errorf("%q is no address to listen at: write HOST:PORT, such as %s or 0.0.0.0:4222", listen, hubListen)
	}
	l.host = cmp.Or(host, "0.0.0.0")
	ip := net.ParseIP(l.host)
	if ip == nil && host != "localhost" {
		if a, err := net.ResolveIPAddr("ip", host); err != nil {
			return l, fmt.Errorf("%s cannot be listened at: %w: write 0.0.0.0 and --host %[1]s", host, err)
		} else {
			ip = a.IP
		}
	}
	l.tls = !(host == "localhost" || ip.IsLoopback()) || c.Cert != "" || len(c.Hosts) > 0
	switch {
	case len(c.Hosts) > 0:
		l.names = c.Hosts
	case !l.tls || c.Cert != "":
		l.names = []string{l.host}
	case ip.IsUnspecified():
		l.names, err = ownNames(ip.To4() == nil)
	default:
		l.names = []string{l.host}
	}
	return l, err
}

// probe returns an error if nobody can listen there, which the server would not say.
func (l *listening) probe() error {
	probe, err := net.Listen("tcp", net.JoinHostPort(l.host, strconv.Itoa(l.port)))
	switch {
	case errors.Is(err, syscall.EADDRNOTAVAIL): // maybe a router's
		return fmt.Errorf("%w: it is none of this machine: write --listen 0.0.0.0 --host %s", err, l.host)
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w: end what listens there, or give another --listen", err)
	case err != nil:
		return fmt.Errorf("%w: give another --listen", err)
	}
	return probe.Close()
}

// ownNames returns the addresses of this machine that others could use, and its name.
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

// url returns how clients connect to the hub.
func (l *listening) url(port int) string {
	scheme := "nats://"
	if l.tls {
		scheme = "tls://"
	}
	var list []string
	for _, name := range l.names {
		list = append(list, scheme+net.JoinHostPort(name, strconv.Itoa(port)))
	}
	return strings.Join(list, ",")
}

// secure has the server speak TLS with a certificate of the user's, or one of the hub's own.
// ca is what clients are to trust, as PEM; "" for a public authority.
func (h *hub) secure(c *wiring.EngineCall, l *listening, o *server.Options) (ca string, err error) {
	if c.Cert == "" {
		o.TLSConfig, ca, err = h.certify(l.names)
	} else if o.TLSConfig, err = server.GenTLSConfig(&server.TLSConfigOpts{CertFile: c.Cert, KeyFile: c.Key}); err != nil {
		err = fmt.Errorf("read the certificate: %w", err)
	} else {
		l.names, ca, err = vouched(c.Cert, c.Hosts, o.TLSConfig.Certificates[0])
	}
	o.TLS, o.TLSTimeout = true, 5
	return ca, err
}

// vouched returns by which names clients may call a hub that has a certificate of the user's,
// and what they are to trust.
func vouched(file string, hosts []string, cert tls.Certificate) (names []string, ca string, err error) {
	leaf := cert.Leaf
	if time.Now().After(leaf.NotAfter) {
		return nil, "", fmt.Errorf("%s has expired on %s: renew it", file, leaf.NotAfter.Local().Format(time.DateTime))
	}
	for _, name := range hosts {
		if err := leaf.VerifyHostname(name); err != nil {
			return nil, "", fmt.Errorf("%s is not for --host %s: %w", file, name, err)
		}
	}
	if names = hosts; len(names) == 0 {
		names = slices.DeleteFunc(slices.Clone(leaf.DNSNames), func(name string) bool { return strings.Contains(name, "*") })
		for _, ip := range leaf.IPAddresses {
			names = append(names, ip.String())
		}
	}
	if len(names) == 0 {
		return nil, "", fmt.Errorf("%s names no host, or many by a wildcard: give --host NAME, by which clients find the hub", file)
	}
	between := x509.NewCertPool()
	for _, der := range cert.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(c)
		}
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Intermediates: between}); err != nil { // nobody knows who has signed it
		ca = pemOf(cert.Certificate[len(cert.Certificate)-1])
	}
	return names, ca, nil
}

// certify makes a certificate for names, which the hub's own authority signs. That is made
// once, in a file of the directory.
func (h *hub) certify(names []string) (*tls.Config, string, error) {
	file := filepath.Join(h.dir, "ca.pem")
	ca, err := tls.LoadX509KeyPair(file, file)
	if errors.Is(err, os.ErrNotExist) {
		var pair []byte
		if pair, err = issue(&x509.Certificate{IsCA: true, KeyUsage: x509.KeyUsageCertSign, NotAfter: time.Now().Add(certified)}, "hub of crew", nil); err == nil {
			err = writePrivate(file, pair)
		}
		if err == nil {
			ca, err = tls.X509KeyPair(pair, pair)
		}
	}
	if err != nil {
		return nil, "", fmt.Errorf("the hub's authority in %s: %w: remove it, and invite all users again", file, err)
	}
	leaf := &x509.Certificate{KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, NotAfter: ca.Leaf.NotAfter}
	for _, name := range append([]string{"localhost", "127.0.0.1", "::1"}, names...) {
		if ip := net.ParseIP(name); ip != nil {
			leaf.IPAddresses = append(leaf.IPAddresses, ip)
		} else {
			leaf.DNSNames = append(leaf.DNSNames, name)
		}
	}
	pair, err := issue(leaf, names[0], &ca)
	var cert tls.Certificate
	if err == nil {
		cert, err = tls.X509KeyPair(pair, pair)
	}
	if err != nil {
		return nil, "", fmt.Errorf("make the hub's certificate: %w", err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}}, pemOf(ca.Certificate[0]), nil
}

// issue makes a certificate for a new key, which an authority signs, or the key itself. It
// returns both as PEM.
func issue(c *x509.Certificate, name string, by *tls.Certificate) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	// The clocks of clients may be behind.
	c.Subject, c.NotBefore, c.BasicConstraintsValid = pkix.Name{CommonName: name}, time.Now().Add(-24*time.Hour), true
	parent, signer := c, any(key)
	if by != nil {
		parent, signer = by.Leaf, by.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	return append([]byte(pemOf(der)), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})...), err
}

func pemOf(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
