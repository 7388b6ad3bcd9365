package cli

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSSHHosts(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "hosts")
	require.NoError(t, os.WriteFile(file, []byte("# ours\n\nweb1\n 4/web2 # the big one\nweb3,:\n"), 0o666))
	bad := filepath.Join(t.TempDir(), "bad")
	require.NoError(t, os.WriteFile(bad, []byte("web1\n0/web2\n"), 0o666))
	for _, c := range []struct {
		values []string
		want   []Host
		err    string
	}{
		{values: []string{"web1"}, want: []Host{{Target: "web1", Name: "web1"}}},
		{values: []string{"8/root@web1.example.com"}, want: []Host{{Target: "root@web1.example.com", Slots: 8, Name: "web1.example.com"}}},
		{values: []string{"2/:", ":"}, want: []Host{{Slots: 2}}},
		{values: []string{"a,b", "3/a"}, want: []Host{{Target: "a", Slots: 3, Name: "a"}, {Target: "b", Name: "b"}}},
		{values: []string{"a:2222,a"}, want: []Host{{Target: "a", Port: "2222", Name: "a"}, {Target: "a", Name: "a"}}},
		{values: []string{"2/ssh://me@h:22,::1"}, want: []Host{{Target: "ssh://me@h:22", Slots: 2, Name: "h"}, {Target: "::1", Name: "host1"}}},
		{values: []string{"10.0.0.1,7"}, want: []Host{{Target: "10.0.0.1", Name: "10-0-0-1"}, {Target: "7", Name: "host7"}}},
		{values: []string{file}, want: []Host{{Target: "web1", Name: "web1"}, {Target: "web2", Slots: 4, Name: "web2"}, {Target: "web3", Name: "web3"}, {}}},
		{values: []string{bad}, err: bad + `, line 2: bad host for --ssh: "0/web2": write 1 to `},
		{values: []string{"/nowhere/hosts"}, err: "read the hosts of --ssh: open /nowhere/hosts: no such file or directory: write 8/HOST for 8 tasks at once on HOST, "},
		{values: []string{"a,,b"}, err: `bad host for --ssh: "": write HOST, `},
		{values: []string{"-oProxyCommand=reboot"}, err: `bad host for --ssh: "-oProxyCommand=reboot": `},
		{values: []string{"2/-v"}, err: `bad host for --ssh: "2/-v": `},
		{values: []string{"ssh -p 22 web1"}, err: `bad host for --ssh: "ssh -p 22 web1": `},
		{values: []string{"web1", os.DevNull}, err: "/dev/null names no host: "},
	} {
		hosts, files, err := Hosts(c.values)
		if c.err != "" {
			require.ErrorContains(t, err, c.err)
			continue
		}
		require.NoError(t, err, c.values)
		require.Equal(t, c.want, hosts)
		require.Equal(t, c.values[0] == file, slices.Equal(files, c.values), "the files")
	}
}
