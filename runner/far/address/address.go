// Package address determines how to connect to a NATS server: by URLs, or by the contexts and the
// environment variables of the nats command.
package address

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Context holds a server's address and the credentials for it. It has the format of the nats command's
// context files, with two additional members.
type Context struct {
	URL      string `json:"url"`
	User     string `json:"user,omitempty"`
	Password string `json:"password,omitempty"`
	Token    string `json:"token,omitempty"`
	Creds    string `json:"creds,omitempty"`
	NKey     string `json:"nkey,omitempty"`
	CA       string `json:"ca,omitempty"`
	Cert     string `json:"cert,omitempty"`
	Key      string `json:"key,omitempty"`
	Inbox    string `json:"inbox_prefix,omitempty"`
	TLSFirst bool   `json:"tls_first,omitempty"`

	// Members that the nats command does not know.

	CAText  string    `json:"ca_text,omitempty"` // content of the file CA
	Expires time.Time `json:"expires,omitzero"`  // when the hub stops accepting the credentials
}

// Find returns how to connect to an engine. The engine is a URL, several URLs separated by commas, the
// name of a NATS context, or a context file; "" stands for NATS_URL or NATS_CONTEXT. A name that ends in .json is a file; any other name is a
// file only if there is no context of that name. The environment variables of the nats command supply
// the rest. url may contain a password: see WithoutPassword.
func Find(engine string) (url string, how nats.Option, err error) {
	c := &Context{}
	if engine == "" {
		c.URL, engine = os.Getenv("NATS_URL"), os.Getenv("NATS_CONTEXT")
	}
	switch {
	case c.URL != "":
	case engine == "":
		err = errors.New("no hub is given: write --engine URL, or set NATS_URL")
	case strings.HasSuffix(engine, ".json") && !strings.Contains(engine, "://"):
		c, err = Read(engine)
	case strings.Contains(engine, ":"):
		c.URL = engine
	default:
		c, err = namedContext(engine)
	}
	if err != nil {
		return "", nil, err
	}
	if !c.Expires.IsZero() && time.Now().After(c.Expires) {
		return "", nil, fmt.Errorf("the credentials in %s expired on %s: ask the hub's owner for new ones (crew engine invite)",
			engine, c.Expires.Local().Format(time.DateTime))
	}
	c.URL = cmp.Or(c.URL, nats.DefaultURL)
	known, err := checkURLs(c.URL)
	if err != nil {
		return "", nil, err
	}
	c.fromEnvironment(known)
	return c.URL, c.set, nil
}

// fromEnvironment prefers the TLS files that the environment names to those of c. It takes credentials
// from the environment only if known is false and c has none.
func (c *Context) fromEnvironment(known bool) {
	c.CA = cmp.Or(os.Getenv("NATS_CA"), c.CA)
	c.Cert = cmp.Or(os.Getenv("NATS_CERT"), c.Cert)
	c.Key = cmp.Or(os.Getenv("NATS_KEY"), c.Key)
	if known || c.User != "" || c.Creds != "" || c.NKey != "" || c.Token != "" {
		return
	}
	c.User, c.Password = os.Getenv("NATS_USER"), os.Getenv("NATS_PASSWORD")
	c.Creds, c.NKey, c.Token = os.Getenv("NATS_CREDS"), os.Getenv("NATS_NKEY"), os.Getenv("NATS_TOKEN")
}

// set configures a client's connection. It is a nats.Option.
func (c *Context) set(o *nats.Options) (err error) {
	for _, file := range []*string{&c.Creds, &c.NKey, &c.CA, &c.Cert, &c.Key} {
		if rest, ok := strings.CutPrefix(*file, "~/"); ok {
			*file = filepath.Join(os.Getenv("HOME"), rest)
		}
	}
	switch {
	case c.User != "":
		o.User, o.Password = c.User, c.Password
	case c.Creds != "":
		err = nats.UserCredentials(c.Creds)(o)
	case c.NKey != "":
		var key nats.Option
		if key, err = nats.NkeyOptionFromSeed(c.NKey); err == nil {
			err = key(o)
		}
	default:
		o.Token = c.Token
	}
	if c.CAText != "" || c.CA != "" {
		err = cmp.Or(err, c.trust(o))
	}
	if (c.Cert == "") != (c.Key == "") {
		return errors.New("a client certificate needs its key: set both NATS_CERT and NATS_KEY")
	}
	if c.Cert != "" {
		err = cmp.Or(err, nats.ClientCert(c.Cert, c.Key)(o))
	}
	if c.TLSFirst {
		err = cmp.Or(err, nats.TLSHandshakeFirst()(o))
	}
	if c.Inbox != "" {
		err = cmp.Or(err, nats.CustomInboxPrefix(c.Inbox)(o))
	}
	if err != nil {
		err = fmt.Errorf("read the credentials for the hub: %w: correct the NATS_ variable or the context that has them", err)
	}
	return err
}

// trust makes a client trust the certificates of CA and CAText, and no others.
func (c *Context) trust(o *nats.Options) error {
	pool := x509.NewCertPool()
	if c.CAText != "" && !pool.AppendCertsFromPEM([]byte(c.CAText)) {
		return errors.New("ca_text holds no certificate")
	}
	if c.CA != "" {
		text, err := os.ReadFile(c.CA)
		if err != nil {
			return err
		}
		if !pool.AppendCertsFromPEM(text) {
			return fmt.Errorf("%s holds no certificate", c.CA)
		}
	}
	o.NoRandomize = c.CAText != "" // the hub lists its addresses in order of preference
	return nats.Secure(&tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool})(o)
}

// checkURLs returns an error if an element of list cannot be the URL of a server. known reports whether
// a URL contains credentials.
func checkURLs(list string) (known bool, err error) {
	for text := range strings.SplitSeq(list, ",") {
		text = strings.TrimSpace(text)
		if !strings.Contains(text, "://") {
			text = "nats://" + text
		}
		u, err := url.Parse(text)
		switch {
		case err != nil || u.Host == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme):
			// The error of Parse would show the password.
			return false, fmt.Errorf("%q is not the URL of a server: write nats://HOST:4222, or tls, ws or wss in place of nats", list[strings.LastIndexByte(list, '@')+1:])
		case u.User != nil:
			known = true
		}
	}
	return known, nil
}

// WithoutPassword returns a list of URLs without their user names and passwords.
func WithoutPassword(list string) string {
	var safe []string
	for text := range strings.SplitSeq(list, ",") {
		scheme, rest, found := strings.Cut(text, "://")
		if !found {
			scheme, rest = "nats", text
		}
		safe = append(safe, scheme+"://"+rest[strings.LastIndexByte(rest, '@')+1:])
	}
	return strings.Join(safe, ",")
}

// contextDir returns the directory of the nats command's contexts.
func contextDir() string {
	return filepath.Join(cmp.Or(os.Getenv("XDG_CONFIG_HOME"), filepath.Join(os.Getenv("HOME"), ".config")), "nats", "context")
}

func namedContext(name string) (*Context, error) {
	for _, file := range [...]string{filepath.Join(contextDir(), name+".json"), name} {
		if _, err := os.Stat(file); err == nil {
			return Read(file)
		}
	}
	return nil, fmt.Errorf("there is no NATS context %q: write a URL such as nats://%[1]s:4222", name)
}

// Read reads a context file.
func Read(file string) (*Context, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the NATS context: %w: give the path of a file that crew engine invite has printed", err)
	}
	c, all := &Context{}, map[string]any{}
	if json.Unmarshal(text, c) != nil || json.Unmarshal(text, &all) != nil {
		return nil, fmt.Errorf("read the NATS context %s: the file is not valid JSON: copy it again, or run crew engine invite for a new one", file)
	}
	for _, name := range [...]string{"nsc", "user_jwt", "socks_proxy"} {
		if value := all[name]; value != nil && value != "" {
			return nil, fmt.Errorf("the NATS context %s has %s, which crew does not support: make one without it", file, name)
		}
	}
	return c, nil
}
