package gateway

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"allium/protocols/capability"
	"allium/protocols/status"
)

// fakeCapabilities takes tokens that list the operations they allow.
type fakeCapabilities struct{}

func (fakeCapabilities) Verify(_ context.Context, token string, ask capability.Ask) (capability.Grant, error) {
	ops, ok := strings.CutPrefix(token, "may-")
	switch {
	case !ok:
		return capability.Grant{}, status.Errorf(status.Unauthenticated, "not a token of this test")
	case !slices.Contains(strings.Split(ops, ","), string(ask.Op)):
		return capability.Grant{}, status.Errorf(status.Forbidden, "the capability does not allow %s", ask.Op)
	}
	return capability.Grant{ID: "00", MaxBytes: -1}, nil
}

// TestMutationsNeedCapabilities: over TCP nothing changes without one, and
// every verb that is POST changes something.
func TestMutationsNeedCapabilities(t *testing.T) {
	t.Parallel()
	n := start(t)
	for name, v := range verbs {
		if (v.method == http.MethodPost) != (v.op != "") {
			t.Errorf("%s is %s and needs %q", name, v.method, v.op)
		}
		if v.op == "" {
			continue
		}
		page := n.Addrs().Admin + "/api/v1/" + name + "?key=x"
		do(t, "POST", page).problem(t, status.Unauthenticated)
		for _, bad := range []string{"Bearer", "Bearer ", "Basic may-all", "may-" + string(v.op), "Bearer nonsense"} {
			do(t, "POST", page, "Authorization", bad).problem(t, status.Unauthenticated)
		}
		do(t, "POST", page, "Authorization", "Bearer may-x", "Authorization", "Bearer may-"+string(v.op)).problem(t, status.Unauthenticated)
		do(t, "POST", page, "Authorization", "Bearer may-nothing").problem(t, status.Forbidden)
	}
	if got := n.node.calls(); len(got) != 0 {
		t.Errorf("the node was asked to %v", got)
	}
	for _, scheme := range []string{"Bearer", "bearer", "Macaroon"} {
		if a := do(t, "POST", n.Addrs().Admin+"/api/v1/drain", "Authorization", scheme+" may-drain"); a.StatusCode != http.StatusOK {
			t.Errorf("%s: %s %s", scheme, a.Status, a.body)
		}
	}
}
