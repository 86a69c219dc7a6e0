package naming

import (
	"context"
	"errors"
	"testing"

	"allium/gateway/api"
)

// gatewayNode is a node of which only the identity is asked.
type gatewayNode struct {
	api.Node
	id  api.ID
	err error
}

func (n gatewayNode) ID(context.Context) (api.ID, error) { return n.id, n.err }

// TestURLOf: a node without a gateway, or that does not answer, has no URL of a name.
func TestURLOf(t *testing.T) {
	for want, n := range map[string]gatewayNode{
		"http://127.0.0.1:8080/n/a.k51": {id: api.ID{Gateway: "http://127.0.0.1:8080"}},
		"":                              {},
	} {
		if got := placesOf(t.Context(), n, "a", "a.k51", api.Added{}).URL; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	n := gatewayNode{id: api.ID{Gateway: "http://127.0.0.1:8080"}, err: errors.New("gone")}
	if got := placesOf(t.Context(), n, "a", "a.k51", api.Added{}).URL; got != "" {
		t.Errorf("got %q after an error", got)
	}
}
