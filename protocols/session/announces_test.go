package session_test

import (
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/testkit"
	"allium/protocols/oap"
	"allium/protocols/session"
)

// TestAnnounces: a feature counts when both sides announce it, while this node has a session that it opened.
func TestAnnounces(t *testing.T) {
	for name, tc := range map[string]struct {
		own, other []string
		want       bool
	}{
		"both":     {[]string{"a", oap.FeaturePutCopies}, []string{oap.FeaturePutCopies, "b"}, true},
		"opener":   {own: []string{oap.FeaturePutCopies}},
		"acceptor": {other: []string{oap.FeaturePutCopies}},
		"none":     {[]string{"a"}, []string{"b"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, testkit.Options{}, func(t *testing.T, net *testkit.Network) {
				service := func(id peer.ID, features []string) *session.Service {
					s, err := session.New(session.DefaultConfig(),
						session.Deps{Host: net.Host(id), Features: features})
					if err != nil {
						t.Fatal(err)
					}
					return s
				}
				a, b := service("a", tc.own), service("b", tc.other)
				defer run(t, a)()
				defer run(t, b)()
				check := func(what string, s *session.Service, p peer.ID, want bool) {
					t.Helper()
					if got := session.Announces(s, p, oap.FeaturePutCopies); got != want {
						t.Errorf("%s: %t, want %t", what, got, want)
					}
				}
				check("before a session", a, "b", false)
				if _, _, err := a.Clock(t.Context(), "b"); err != nil {
					t.Fatal(err)
				}
				check("with a session", a, "b", tc.want)
				check("that the other side opened", b, "a", false)
				if session.Announces(a, "b", "b") {
					t.Error("a feature counts that this node does not announce")
				}
			})
		})
	}
}
