package node_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"allium/gateway/api"
	"allium/gateway/certs/certstest"
	"allium/node/config"
	"allium/protocols/status"
)

// gatewayHost is the name of a gateway with a certificate, on loopback.
const gatewayHost = "gateway.example"

// named gives a node's gateway a name and a certificate. It returns a client that finds it.
func named(t *testing.T, change func(*config.Config)) (*running, *http.Client) {
	t.Helper()
	ca := certstest.New(t)
	cert, key := ca.Pair(t, t.TempDir(), time.Now().Add(time.Hour), gatewayHost)
	n := start(t, func(c *config.Config) {
		c.Gateway.TLS.Cert, c.Gateway.TLS.Key = cert, key
		if change != nil {
			change(c)
		}
	})
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: ca.Pool},
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			_, port, err := net.SplitHostPort(addr)
			if err != nil {
				return nil, err
			}
			return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port))
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return n, &http.Client{Transport: transport}
}

// shareOn opens a link of a node on the gateway of another. Its items come until end is called or the link ends, with
// the error.
func shareOn(t *testing.T, n *running, key string, o api.WebOptions) (
	items chan api.WebShared, ended chan error, end func(),
) {
	t.Helper()
	items, ended = make(chan api.WebShared, 100), make(chan error, 1) // bound: few downloads
	ctx, cancel := context.WithCancel(t.Context())
	var sharing sync.WaitGroup
	sharing.Go(func() {
		defer close(ended)
		for item, err := range n.API().ShareWeb(ctx, key, o) {
			if err != nil {
				ended <- err
				return
			}
			items <- item
		}
	})
	t.Cleanup(func() { cancel(); sharing.Wait() })
	return items, ended, cancel
}

// TestShareOnPeer shares a directory on the gateway of another node, which fetches it, proves it and shows it until the
// link ends. Nobody else is told of it.
func TestShareOnPeer(t *testing.T) {
	noLeaks(t)
	gw, browser := named(t, nil)
	sharer := start(t, nil)
	dir := newTree(t, 3)
	root := add(t, sharer, dir)[0].Root.String()
	large, err := os.ReadFile(filepath.Join(dir, "large"))
	if err != nil {
		t.Fatal(err)
	}
	items, ended, end := shareOn(t, sharer, root, api.WebOptions{On: gw.ID().Addrs[0], Name: "trees"})
	var link string
	select {
	case item := <-items:
		link = item.Links[0].URL
		if len(item.Links) != 1 || item.Links[0].Reach != api.ReachUnconfirmed ||
			!strings.HasPrefix(link, "https://"+gatewayHost+":") {
			t.Fatalf("%+v", item)
		}
	case err := <-ended:
		t.Fatal(err)
	}
	read := func(path string) (int, []byte) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, link+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := browser.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, body
	}
	if code, page := read(""); code != http.StatusOK || !bytes.Contains(page, []byte("large")) {
		t.Errorf("%d %.300s", code, page)
	}
	if code, body := read("large"); code != http.StatusOK || !bytes.Equal(body, large) {
		t.Errorf("%d, %d bytes", code, len(body))
	}
	if code, _ := read("?format=zip"); code != http.StatusOK {
		t.Errorf("the archive: %d", code)
	}
	if item := <-items; item.Download == nil || !item.Download.Whole || item.Download.From != "" {
		t.Errorf("%+v", item)
	}
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if code, _ := read("large"); code != http.StatusGone {
		t.Errorf("after the end: %d", code)
	}
}

// TestShareOnNobody: a gateway that shows no links, or has no name, and a node without a relay are said.
func TestShareOnNobody(t *testing.T) {
	noLeaks(t)
	none, _ := named(t, func(c *config.Config) { c.Gateway.PeerLinks = 0 })
	unnamed, sharer := start(t, nil), start(t, nil)
	root := add(t, sharer, newTree(t, 1))[0].Root.String()
	for on, want := range map[string]status.Outcome{
		none.ID().Addrs[0]: status.Unsupported, unnamed.ID().Addrs[0]: status.Unsupported,
		sharer.ID().Addrs[0]: status.BadRequest, "nonsense": status.BadRequest, api.OnRelay: status.NotFound,
	} {
		_, ended, _ := shareOn(t, sharer, root, api.WebOptions{On: on})
		if err := <-ended; status.Of(err) != want {
			t.Errorf("%s: %v", on, err)
		}
	}
	if u, err := url.Parse(unnamed.ID().Gateway); err != nil || u.Hostname() != "127.0.0.1" {
		t.Errorf("the gateway is %v (%v)", u, err)
	}
}
