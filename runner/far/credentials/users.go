// Package credentials is by what a hub of crew engine serve and its clients know each other: the
// hub's certificate, and the passwords of its users. Workers trust commands by the keys that have
// signed them (Keys).
package credentials

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"crew/runner/keep/trust"
)

// Owner is the name of the user who may do everything.
const Owner = "admin"

// User is a user of a hub, as JSON.
type User struct {
	Name      string    `json:"name"`
	Submitter bool      `json:"submitter,omitempty"` // or else a worker
	Expires   time.Time `json:"expires,omitzero"`
	Hash      []byte    `json:"sha256,omitempty"` // of the password, which nobody could guess
}

// Users decides who may connect to a hub, and what they may do there. It is safe for
// concurrent use.
type Users struct {
	file   string // of the list
	owner  []byte // as User.Hash
	rights func(User) *server.Permissions

	mu   sync.Mutex
	list []User
}

// OpenUsers reads the users of a hub in dir. rights returns what one may do.
func OpenUsers(dir, ownerPassword string, rights func(User) *server.Permissions) (*Users, error) {
	u := &Users{file: filepath.Join(dir, "users.json"), owner: hashOf(ownerPassword), rights: rights}
	text, err := os.ReadFile(u.file)
	switch {
	case err == nil:
		if err = json.Unmarshal(text, &u.list); err != nil {
			err = fmt.Errorf("read %s: %w: remove it, and invite all users again", u.file, err)
		}
	case errors.Is(err, os.ErrNotExist):
		err = u.write(nil)
	}
	return u, err
}

func hashOf(password string) []byte {
	sum := sha256.Sum256([]byte(password))
	return sum[:]
}

// write replaces the list, on disk and then here.
func (u *Users) write(list []User) error {
	text, err := json.MarshalIndent(list, "", "  ")
	if err == nil {
		err = trust.WritePrivate(u.file, append(text, '\n'))
	}
	if err == nil {
		u.list = list
	}
	return err
}

func (u *Users) index(name string) int {
	return slices.IndexFunc(u.list, func(v User) bool { return v.Name == name })
}

// Check has a client be the user that it says it is. See server.Authentication.
func (u *Users) Check(c server.ClientAuthentication) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	o := c.GetOpts()
	v := User{Name: Owner, Hash: u.owner}
	as := &server.User{Username: o.Username}
	if i := u.index(o.Username); i >= 0 {
		v = u.list[i]
		as.Permissions, as.ConnectionDeadline = u.rights(v), v.Expires
	}
	// By an nkey the server would call the client, so that revoke missed it.
	if v.Name != o.Username || v.expired() || o.Nkey != "" || subtle.ConstantTimeCompare(v.Hash, hashOf(o.Password)) != 1 {
		return false
	}
	c.RegisterUser(as)
	return true
}

func (v *User) expired() bool { return !v.Expires.IsZero() && time.Now().After(v.Expires) }

func odd(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-' || r == '.')
}

// Invite adds a user, and returns the password.
func (u *Users) Invite(v User) (password string, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if v.Name == Owner || strings.ContainsFunc(v.Name, odd) || v.Name == "" {
		return "", fmt.Errorf("nobody can be called %s: choose another name", v.Name)
	}
	if i := u.index(v.Name); i >= 0 && !u.list[i].expired() {
		return "", fmt.Errorf("%s is invited already: choose another name, or run crew engine revoke %[1]s first", v.Name)
	}
	password = rand.Text()
	v.Hash = hashOf(password)
	list := slices.DeleteFunc(slices.Clone(u.list), func(w User) bool { return w.Name == v.Name })
	return password, u.write(append(list, v))
}

// Revoke removes a user.
func (u *Users) Revoke(name string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	i := u.index(name)
	if i >= 0 {
		return u.write(slices.Delete(slices.Clone(u.list), i, i+1))
	}
	if name == Owner {
		return errors.New("the hub would have no owner: remove admin.json from its directory and start it again, and it makes another password")
	}
	names := Owner
	for _, v := range u.list {
		names += ", " + v.Name
	}
	return fmt.Errorf("nobody is called %s: there are %s", name, names)
}
