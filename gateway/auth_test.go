package gateway

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"allium/gateway/exchange"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// fakeCapabilities takes tokens that list the operations they allow, and after
// "<=" how many bytes; what is after "@" the object's address begins with.
type fakeCapabilities struct{}

func (fakeCapabilities) Verify(_ context.Context, token string, ask capability.Request) (capability.Grant, error) {
	token, limit, limited := strings.Cut(token, "<=")
	most := int64(-1)
	if limited {
		most, _ = strconv.ParseInt(limit, 10, 64)
	}
	token, prefix, _ := strings.Cut(token, "@")
	ops, ok := strings.CutPrefix(token, "may-")
	switch {
	case !ok:
		return capability.Grant{}, status.Errorf(status.Unauthenticated, "not a token of this test")
	case !slices.Contains(strings.Split(ops, ","), string(ask.Op)):
		return capability.Grant{}, status.Errorf(status.Forbidden, "the capability does not allow %s", ask.Op)
	case prefix != "" && !ask.ObjectLater && (ask.Object.IsZero() || !strings.HasPrefix(ask.Object.String(), prefix)):
		return capability.Grant{}, status.Errorf(status.Forbidden,
			"the capability is for %s, not for %s", prefix, ask.Object)
	}
	return capability.Grant{ID: "00", MaxBytes: most}, nil
}

// TestMutationsNeedCapabilities: over TCP nothing changes without one, and
// every method that is neither GET nor HEAD changes something.
func TestMutationsNeedCapabilities(t *testing.T) {
	t.Parallel()
	n := start(t)
	for _, e := range routes() {
		changes := slices.ContainsFunc(e.Methods, func(m string) bool {
			return m != http.MethodGet && m != http.MethodHead && m != http.MethodOptions
		})
		if changes && e.Op == "" {
			t.Errorf("%s is %s and needs no capability", e.ID, e.Methods)
		}
		if e.Op == "" {
			continue
		}
		base := n.Addrs().Admin
		if e.On&exchange.OnAdmin == 0 {
			base = n.Addrs().Gateway
		}
		page, _, _ := strings.Cut(base+e.Path, "{")
		for _, m := range e.Methods {
			do(t, m, page).problem(t, status.Unauthenticated)
			for _, bad := range []string{"Bearer", "Bearer ", "Basic may-all", "may-" + string(e.Op), "Bearer nonsense"} {
				do(t, m, page, "Authorization", bad).problem(t, status.Unauthenticated)
			}
			do(t, m, page, "Authorization", "Bearer may-x", "Authorization", "Bearer may-"+string(e.Op)).problem(t,
				status.Unauthenticated)
			do(t, m, page, "Authorization", "Bearer may-nothing").problem(t, status.Forbidden)
		}
	}
	if got := n.node.calls(); len(got) != 0 {
		t.Errorf("the node was asked to %v", got)
	}
	for _, scheme := range []string{"Bearer", "bearer", "Macaroon"} {
		if a := do(t, "POST", n.Addrs().Admin+"/api/v1/drain", "Authorization",
			scheme+" may-drain"); a.StatusCode != http.StatusOK {
			t.Errorf("%s: %s %s", scheme, a.Status, a.body)
		}
	}
}
