package credentials

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// A name belongs to one user until the user is revoked or expires, and the list outlives the hub.
func TestUsers(t *testing.T) {
	dir := t.TempDir()
	u, err := OpenUsers(dir, "p", nil)
	require.NoError(t, err)
	first, err := u.Invite(User{Name: "web1"})
	require.NoError(t, err)
	_, err = u.Invite(User{Name: "web1"})
	require.ErrorContains(t, err, "user web1 exists already")
	for _, name := range []string{"", Owner, "a b", "a/b", "a\n"} {
		_, err = u.Invite(User{Name: name})
		require.ErrorContains(t, err, "choose another")
	}
	_, err = u.Invite(User{Name: "late", Expires: time.Now().Add(-time.Second)})
	require.NoError(t, err)
	_, err = u.Invite(User{Name: "late", Submitter: true})
	require.NoError(t, err)

	u, err = OpenUsers(dir, "p", nil)
	require.NoError(t, err)
	require.NotContains(t, crewtest.ReadFile(t, u.file), first)
	require.ErrorContains(t, u.Revoke("web2"), "the users are admin, web1, late")
	require.ErrorContains(t, u.Revoke(Owner), "the owner cannot be revoked")
	require.NoError(t, u.Revoke("web1"))
	second, err := u.Invite(User{Name: "web1"})
	require.NoError(t, err)
	require.NotEqual(t, first, second)
	crewtest.WriteFile(t, u.file, "[", 0o600)
	_, err = OpenUsers(dir, "p", nil)
	require.ErrorContains(t, err, "remove it, and invite all users again")
}
