package credentials

import (
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
	"strings"
	"time"

	"crew/runner/keep/trust"
)

// certified is for how long a hub's own certificates hold. Whoever wants it shorter gives the
// hub one.
const certified = 20 * 365 * 24 * time.Hour

// Certificate is what a hub shows of itself.
type Certificate struct {
	TLS   *tls.Config
	Names []string // by which clients may call it
	CA    string   // what they are to trust, as PEM; "" for a public authority
}

// Load reads a certificate from files. Without hosts, clients call the hub by the names in it.
func Load(file, key string, hosts []string) (c Certificate, err error) {
	cert, err := tls.LoadX509KeyPair(file, key)
	if err != nil {
		return c, fmt.Errorf("read the certificate: %w", err)
	}
	leaf := cert.Leaf
	if time.Now().After(leaf.NotAfter) {
		return c, fmt.Errorf("%s has expired on %s: renew it", file, leaf.NotAfter.Local().Format(time.DateTime))
	}
	for _, name := range hosts {
		if err := leaf.VerifyHostname(name); err != nil {
			return c, fmt.Errorf("%s is not for --host %s: %w", file, name, err)
		}
	}
	if c.Names = hosts; len(hosts) == 0 {
		c.Names = slices.DeleteFunc(slices.Clone(leaf.DNSNames), func(name string) bool { return strings.Contains(name, "*") })
		for _, ip := range leaf.IPAddresses {
			c.Names = append(c.Names, ip.String())
		}
	}
	if len(c.Names) == 0 {
		return c, fmt.Errorf("%s names no host, or many by a wildcard: give --host NAME, by which clients find the hub", file)
	}
	c.TLS, c.CA = configOf(cert), authorityOf(cert)
	return c, nil
}

func configOf(cert tls.Certificate) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}}
}

// authorityOf returns what is to be trusted for a certificate that no public authority has signed,
// and otherwise "".
func authorityOf(cert tls.Certificate) string {
	between := x509.NewCertPool()
	for _, der := range cert.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(c)
		}
	}
	if _, err := cert.Leaf.Verify(x509.VerifyOptions{Intermediates: between}); err != nil {
		return pemOf(cert.Certificate[len(cert.Certificate)-1])
	}
	return ""
}

// Make makes a certificate for names, which the hub's own authority signs. That is made once, in
// a file of the directory.
func Make(dir string, names []string) (c Certificate, err error) {
	file := filepath.Join(dir, "ca.pem")
	ca, err := tls.LoadX509KeyPair(file, file)
	if errors.Is(err, os.ErrNotExist) {
		var text []byte
		if ca, text, err = issue(&x509.Certificate{IsCA: true, KeyUsage: x509.KeyUsageCertSign, NotAfter: time.Now().Add(certified)}, "hub of crew", nil); err == nil {
			err = trust.WritePrivate(file, text)
		}
	}
	if err != nil {
		return c, fmt.Errorf("the hub's authority in %s: %w: remove it, and invite all users again", file, err)
	}
	leaf := &x509.Certificate{KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, NotAfter: ca.Leaf.NotAfter}
	for _, name := range append([]string{"localhost", "127.0.0.1", "::1"}, names...) {
		if ip := net.ParseIP(name); ip != nil {
			leaf.IPAddresses = append(leaf.IPAddresses, ip)
		} else {
			leaf.DNSNames = append(leaf.DNSNames, name)
		}
	}
	cert, _, err := issue(leaf, names[0], &ca)
	if err != nil {
		return c, fmt.Errorf("make the hub's certificate: %w", err)
	}
	return Certificate{configOf(cert), names, pemOf(ca.Certificate[0])}, nil
}

// issue makes a certificate for a new key, which an authority signs, or the key itself. It
// returns both, also as PEM.
func issue(c *x509.Certificate, name string, by *tls.Certificate) (pair tls.Certificate, text []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair, nil, err
	}
	// The clocks of clients may be behind.
	c.Subject, c.NotBefore, c.BasicConstraintsValid = pkix.Name{CommonName: name}, time.Now().Add(-24*time.Hour), true
	parent, signer := c, any(key)
	if by != nil {
		parent, signer = by.Leaf, by.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		return pair, nil, err
	}
	secret, _ := x509.MarshalPKCS8PrivateKey(key) // or else it is no pair
	text = append([]byte(pemOf(der)), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})...)
	pair, err = tls.X509KeyPair(text, text)
	return pair, text, err
}

func pemOf(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
