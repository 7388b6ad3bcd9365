// Package credentials holds the means by which a hub of crew engine serve and its clients identify each
// other: the hub's certificate and its users' passwords. It also holds the keys that sign commands, and
// the sets of keys that workers trust.
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

// Owner is the name of the user who is allowed everything.
const Owner = "admin"

// User is a user of a hub, as stored in JSON.
type User struct {
	Name      string    `json:"name"`
	Submitter bool      `json:"submitter,omitempty"` // false for a worker
	Expires   time.Time `json:"expires,omitzero"`    // zero for never
	Hash      []byte    `json:"sha256,omitempty"`    // of the password; no salt is needed, since passwords are random
}

// Users decides who may connect to a hub and with which permissions. It is safe for concurrent use.
type Users struct {
	file   string // holds list
	owner  []byte // the owner's User.Hash
	rights func(User) *server.Permissions

	mu   sync.Mutex
	list []User
}

// OpenUsers reads the users of a hub from its directory dir, and creates the file if it does not exist.
// rights returns a user's permissions.
func OpenUsers(dir, ownerPassword string, rights func(User) *server.Permissions) (*Users, error) {
	u := &Users{file: filepath.Join(dir, "users.json"), owner: hash(ownerPassword), rights: rights}
	text, err := os.ReadFile(u.file)
	switch {
	case err == nil:
		if err = json.Unmarshal(text, &u.list); err != nil {
			err = fmt.Errorf("read %s: %w: remove it, and invite all users again", u.file, err)
		}
	case errors.Is(err, os.ErrNotExist):
		err = u.writeLocked(nil)
	}
	return u, err
}

func hash(password string) []byte {
	sum := sha256.Sum256([]byte(password))
	return sum[:]
}

// writeLocked replaces the list, first on disk and then in memory. The caller must hold mu.
func (u *Users) writeLocked(list []User) error {
	text, err := json.MarshalIndent(list, "", "  ")
	if err == nil {
		err = trust.WritePrivate(u.file, append(text, '\n'))
	}
	if err == nil {
		u.list = list
	}
	return err
}

func (u *Users) indexLocked(name string) int {
	return slices.IndexFunc(u.list, func(v User) bool { return v.Name == name })
}

// Check authenticates a client. See server.Authentication.
func (u *Users) Check(c server.ClientAuthentication) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	o := c.GetOpts()
	v := User{Name: Owner, Hash: u.owner}
	as := &server.User{Username: o.Username}
	if i := u.indexLocked(o.Username); i >= 0 {
		v = u.list[i]
		as.Permissions, as.ConnectionDeadline = u.rights(v), v.Expires
	}
	// The server would name a client that gives an nkey by that, and revoke would miss the client.
	if v.Name != o.Username || v.expired() || o.Nkey != "" || subtle.ConstantTimeCompare(v.Hash, hash(o.Password)) != 1 {
		return false
	}
	c.RegisterUser(as)
	return true
}

func (v *User) expired() bool { return !v.Expires.IsZero() && time.Now().After(v.Expires) }

func invalid(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-' || r == '.')
}

// Invite adds a user and returns the user's password. It fails if the name is invalid, or taken by a
// user who has not expired.
func (u *Users) Invite(v User) (password string, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if v.Name == Owner || strings.ContainsFunc(v.Name, invalid) || v.Name == "" {
		return "", fmt.Errorf("%s cannot be a user name: choose another", v.Name)
	}
	if i := u.indexLocked(v.Name); i >= 0 && !u.list[i].expired() {
		return "", fmt.Errorf("user %s exists already: choose another name, or run crew engine revoke %[1]s first", v.Name)
	}
	password = rand.Text()
	v.Hash = hash(password)
	list := slices.DeleteFunc(slices.Clone(u.list), func(w User) bool { return w.Name == v.Name })
	return password, u.writeLocked(append(list, v))
}

// Revoke removes a user. The owner cannot be removed.
func (u *Users) Revoke(name string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	i := u.indexLocked(name)
	if i >= 0 {
		return u.writeLocked(slices.Delete(slices.Clone(u.list), i, i+1))
	}
	if name == Owner {
		return errors.New("the owner cannot be revoked: to change the password, remove admin.json from the hub's directory and restart the hub")
	}
	names := Owner
	for _, v := range u.list {
		names += ", " + v.Name
	}
	return fmt.Errorf("there is no user %s: the users are %s", name, names)
}
