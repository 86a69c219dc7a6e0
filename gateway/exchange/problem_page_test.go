package exchange

import (
	"testing"

	"allium/gateway/api"
	"allium/protocols/status"
)

// TestForVisitor: a visitor reads what concerns everybody, and nothing for the operator.
func TestForVisitor(t *testing.T) {
	for _, c := range []struct {
		reason, detail, want string
		again                bool
	}{
		{
			"not_found", `cannot find "a.txt" in b3:1…: the directory has no such entry. Open it to see what it has.`,
			`cannot find "a.txt" in b3:1…: the directory has no such entry. Open it to see what it has.`, false,
		},
		{"not_found", "cannot find b3:1…: no provider was found. Try again later.", nobody, true},
		{"not_found", `cannot find "node.js` + "`allium`" + `": it is a file.`,
			`cannot find "node.js` + "`allium`" + `": it is a file.`, false},
		{"unsupported", "This cannot be shown. Set gateway.multi_range to 2.", "This cannot be shown.", false},
		{"unsupported", "Run `allium x`. Then try again.",
			"This link leads to nothing that this gateway can show. Check it, or ask whoever gave it to you.", false},
		{"timeout", "no byte came for 5s. List peers with `allium providers`.", visitorWords[status.Timeout], true},
		{"denied", "the denylist forbids it.", visitorWords[status.Denied], false},
		{"rate_limit", "You asked too often. Wait a minute.", "You asked too often. Wait a minute.", false},
		{
			"upstream", "cannot serve this site: line 3 of _redirects: no target. Its author must mend the file",
			"cannot serve this site: line 3 of _redirects: no target. Its author must mend the file", false,
		},
		{"upstream", "the provider 12D3Koo sent 3 bytes of 4", visitorWords[status.Upstream], true},
		{"rate_limit", "gateway.rate is 10 for each client.", visitorWords[status.RateLimit], true},
		{"no_such_reason", "", visitorWords[status.Internal], true},
	} {
		got, again := forVisitor(api.Problem{Reason: c.reason, Detail: c.detail})
		if got != c.want || again != c.again {
			t.Errorf("%s, %q: %q, %t", c.reason, c.detail, got, again)
		}
	}
	for out := range visitorWords {
		if out.Success() {
			t.Errorf("%s is no failure", out)
		}
	}
}
