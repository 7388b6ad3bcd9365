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

// validity is how long the certificates that a hub issues itself are valid. Users who want a shorter
// time give the hub a certificate of their own.
const validity = 20 * 365 * 24 * time.Hour

// Certificate is the certificate with which a hub identifies itself.
type Certificate struct {
	TLS   *tls.Config
	Names []string // names by which clients may reach the hub
	CA    string   // certificate that clients must trust, as PEM; "" if a public authority has signed
}

// LoadCertificate reads a certificate and its key from files. It fails if the certificate has expired
// or is not valid for all hosts. If hosts is empty, clients reach the hub by the names in the
// certificate, except wildcards; then there must be such a name.
func LoadCertificate(file, key string, hosts []string) (c Certificate, err error) {
	cert, err := tls.LoadX509KeyPair(file, key)
	if err != nil {
		return c, fmt.Errorf("read the certificate: %w", err)
	}
	leaf := cert.Leaf
	if time.Now().After(leaf.NotAfter) {
		return c, fmt.Errorf("%s expired on %s: renew it", file, leaf.NotAfter.Local().Format(time.DateTime))
	}
	for _, name := range hosts {
		if err := leaf.VerifyHostname(name); err != nil {
			return c, fmt.Errorf("%s is not valid for --host %s: %w", file, name, err)
		}
	}
	if c.Names = hosts; len(hosts) == 0 {
		c.Names = slices.DeleteFunc(slices.Clone(leaf.DNSNames), func(name string) bool { return strings.Contains(name, "*") })
		for _, ip := range leaf.IPAddresses {
			c.Names = append(c.Names, ip.String())
		}
	}
	if len(c.Names) == 0 {
		return c, fmt.Errorf("%s names no host except by a wildcard: give --host NAME, the name by which clients reach the hub", file)
	}
	c.TLS, c.CA = tlsConfig(cert), authorityPEM(cert)
	return c, nil
}

func tlsConfig(cert tls.Certificate) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}}
}

// authorityPEM returns the certificate to trust if no public authority has signed cert, and otherwise
// "".
func authorityPEM(cert tls.Certificate) string {
	intermediates := x509.NewCertPool()
	for _, der := range cert.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			intermediates.AddCert(c)
		}
	}
	if _, err := cert.Leaf.Verify(x509.VerifyOptions{Intermediates: intermediates}); err != nil {
		return encodePEM(cert.Certificate[len(cert.Certificate)-1])
	}
	return ""
}

// MakeCertificate issues a certificate for localhost and names, of which there must be one, signed by
// the hub's own authority. The authority is created on first use and stored in dir.
func MakeCertificate(dir string, names []string) (c Certificate, err error) {
	file := filepath.Join(dir, "ca.pem")
	ca, err := tls.LoadX509KeyPair(file, file)
	if errors.Is(err, os.ErrNotExist) {
		var text []byte
		if ca, text, err = issue(&x509.Certificate{IsCA: true, KeyUsage: x509.KeyUsageCertSign, NotAfter: time.Now().Add(validity)}, "hub of crew", nil); err == nil {
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
	return Certificate{tlsConfig(cert), names, encodePEM(ca.Certificate[0])}, nil
}

// issue creates a key and a certificate for it, which authority signs; the key itself signs it if
// authority is nil. It returns both as a pair and as PEM.
func issue(c *x509.Certificate, name string, authority *tls.Certificate) (pair tls.Certificate, text []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair, nil, err
	}
	// The clocks of clients may be behind.
	c.Subject, c.NotBefore, c.BasicConstraintsValid = pkix.Name{CommonName: name}, time.Now().Add(-24*time.Hour), true
	parent, signer := c, any(key)
	if authority != nil {
		parent, signer = authority.Leaf, authority.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		return pair, nil, err
	}
	secret, _ := x509.MarshalPKCS8PrivateKey(key) // if this fails, so does X509KeyPair
	text = append([]byte(encodePEM(der)), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})...)
	pair, err = tls.X509KeyPair(text, text)
	return pair, text, err
}

func encodePEM(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
