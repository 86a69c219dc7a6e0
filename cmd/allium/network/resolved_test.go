package network

import (
	"testing"

	"allium/gateway/api"
	"allium/protocols/b3"
)

// TestResolvedIsOneLine: no value of a name makes a line of its own or acts on the terminal.
func TestResolvedIsOneLine(t *testing.T) {
	t.Parallel()
	chain := []api.Record{{Name: "motd.k51x", Value: "a\nb", Found: "dns"}}
	root := b3.Sum(nil)
	for _, c := range []struct {
		of    api.Resolved
		quiet bool
		want  string
	}{
		{api.Resolved{Value: "a\r\nb\x1b[2J\\n", Chain: chain}, true, `a\r\nb\x1b[2J\\n`},
		{api.Resolved{Value: "a\nb", Chain: chain}, false, "motd.k51x  a\\nb, by the DNS, which nobody signs\na\\nb"},
		{api.Resolved{Target: root, Path: "x\ny", Chain: chain}, true, root.String() + `/x\ny`},
		{api.Resolved{Target: root, Path: "x\ny"}, false, root.String() +
			`/x\ny  from , 0s old, remembered for 0s, `},
	} {
		if got := resolvedText(c.of, c.quiet); got != c.want {
			t.Errorf("quiet %t: %q, want %q", c.quiet, got, c.want)
		}
	}
}
