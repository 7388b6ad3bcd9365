package engine

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"crew/runner/address"
)

// owner is the name of the user of a hub who may do everything.
const owner = "admin"

// User is a user of a hub, as JSON.
type User struct {
	Name      string    `json:"name"`
	Submitter bool      `json:"submitter,omitempty"` // or else a worker
	Expires   time.Time `json:"expires,omitzero"`
	Hash      []byte    `json:"sha256,omitempty"` // of the password, which nobody could guess
}

// users decides who may connect to a hub, and what they may do there. It is safe for
// concurrent use.
type users struct {
	file  string // of the list
	owner []byte // as User.Hash

	mu   sync.Mutex
	list []User
}

// openUsers reads the users of a hub in dir. One of before there were any such has the
// contexts of two, who remain.
func openUsers(dir, ownerPassword string) (*users, error) {
	u := &users{file: filepath.Join(dir, "users.json"), owner: hashOf(ownerPassword)}
	text, err := os.ReadFile(u.file)
	switch {
	case err == nil:
		if err = json.Unmarshal(text, &u.list); err != nil {
			err = fmt.Errorf("read %s: %w: remove it, and invite all users again", u.file, err)
		}
	case errors.Is(err, os.ErrNotExist):
		for _, name := range []string{"worker", "submitter"} {
			if c, err := address.Read(filepath.Join(dir, name+".json")); err == nil && c.Password != "" {
				u.list = append(u.list, User{Name: name, Submitter: name == "submitter", Hash: hashOf(c.Password)})
			}
		}
		err = u.write(u.list)
	}
	return u, err
}

func hashOf(password string) []byte {
	sum := sha256.Sum256([]byte(password))
	return sum[:]
}

// write replaces the list, on disk and then here.
func (u *users) write(list []User) error {
	text, err := json.MarshalIndent(list, "", "  ")
	if err == nil {
		err = writePrivate(u.file, append(text, '\n'))
	}
	if err == nil {
		u.list = list
	}
	return err
}

func (u *users) index(name string) int {
	return slices.IndexFunc(u.list, func(v User) bool { return v.Name == name })
}

// Check has a client be the user that it says it is. See server.Authentication.
func (u *users) Check(c server.ClientAuthentication) bool {
	o := c.GetOpts()
	if o.Nkey != "" { // by which the server would call the client, so that revoke missed it
		return false
	}
	is := func(hash []byte) bool { return subtle.ConstantTimeCompare(hash, hashOf(o.Password)) == 1 }
	if o.Username == owner && is(u.owner) {
		c.RegisterUser(&server.User{Username: owner})
		return true
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	i := u.index(o.Username)
	if i < 0 || !is(u.list[i].Hash) {
		return false
	}
	v := u.list[i]
	if !v.Expires.IsZero() && time.Now().After(v.Expires) {
		return false
	}
	r := workerRights()
	if v.Submitter {
		r = submitterRights()
	}
	c.RegisterUser(&server.User{Username: v.Name, Permissions: r.permissions(), ConnectionDeadline: v.Expires})
	return true
}

// invite adds a user, and returns the password.
func (u *users) invite(v User) (password string, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if v.Name == owner || !validName(v.Name) {
		return "", fmt.Errorf("nobody can be called %s: choose another name", v.Name)
	}
	if i := u.index(v.Name); i >= 0 && (u.list[i].Expires.IsZero() || time.Now().Before(u.list[i].Expires)) {
		return "", fmt.Errorf("%s is invited already: choose another name, or run crew engine revoke %[1]s first", v.Name)
	}
	password = rand.Text()
	v.Hash = hashOf(password)
	list := slices.DeleteFunc(slices.Clone(u.list), func(w User) bool { return w.Name == v.Name })
	return password, u.write(append(list, v))
}

// revoke removes a user.
func (u *users) revoke(name string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	i := u.index(name)
	if i >= 0 {
		return u.write(slices.Delete(slices.Clone(u.list), i, i+1))
	}
	if name == owner {
		return errors.New("the hub would have no owner: remove admin.json from its directory and start it again, and it makes another password")
	}
	var names []string
	for _, v := range u.list {
		names = append(names, v.Name)
	}
	if len(names) == 0 {
		return fmt.Errorf("nobody is called %s, nor invited at all", name)
	}
	return fmt.Errorf("nobody is called %s: invited are %s", name, strings.Join(names, ", "))
}

// obey invites and revokes users for the owner.
func (h *hub) obey(o *Order, a *Answer) (err error) {
	if o.User == nil {
		return errGarbage
	}
	v := *o.User
	switch o.Op {
	case opInvite:
		a.Context, err = h.invite(v)
		return err
	case opRevoke:
		if err = h.users.revoke(v.Name); err == nil {
			a.Tasks, err = h.cut(v.Name)
		}
		return err
	}
	return o.unknown()
}

// invite lets a user connect, with the context that it returns.
func (h *hub) invite(v User) (*address.Context, error) {
	password, err := h.users.invite(v)
	if err != nil {
		return nil, err
	}
	c := h.context(v.Name, password)
	if c.Expires = v.Expires; !v.Submitter {
		c.Inbox = workerInbox
	}
	return c, nil
}

// cut closes the connections of a user, and returns how many there were. A client has its name
// before it is let in, so none that was let in is missed.
func (h *hub) cut(name string) (n int, err error) {
	list, err := h.server.Connz(&server.ConnzOptions{User: name, Limit: math.MaxInt})
	if err != nil {
		return 0, err
	}
	for _, c := range list.Conns {
		if h.server.DisconnectClientByID(c.Cid) == nil {
			n++
		}
	}
	return n, nil
}

// context returns the context of a user.
func (h *hub) context(name, password string) *address.Context {
	return &address.Context{URL: h.url, User: name, Password: password, CAText: h.ca}
}
