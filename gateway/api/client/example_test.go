package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"allium/gateway/api/client"
	"allium/protocols/status"
)

// A client asks the admin listener of a node which peer it is.
func ExampleNew() {
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Method, r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"id":"12D3KooW…","addrs":["/ip4/192.0.2.1/tcp/4001"],"gateway":"","admin":""}`)
	}))
	defer node.Close()

	c, err := client.New(node.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	id, err := c.ID(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(id.ID, id.Addrs)
	// Output:
	// GET /api/v1/id
	// 12D3KooW… [/ip4/192.0.2.1/tcp/4001]
}

// The error of a node has the outcome that the node gave it.
func ExampleClient_Pins() {
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-ndjson")
		fmt.Fprintln(w, `{"item":{"root":"b3:`+zeros+`","recursive":true,"label":"photos"}}`)
		fmt.Fprintln(w, `{"error":{"reason":"draining","message":"the node is shutting down"}}`)
	}))
	defer node.Close()

	c, err := client.New(node.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	for pin, err := range c.Pins(context.Background()) {
		if err != nil {
			fmt.Printf("%s: %v\n", status.Of(err), err)
			break
		}
		fmt.Println(pin.Label, pin.Recursive)
	}
	// Output:
	// photos true
	// draining: the node is shutting down
}

// ErrNotRunning tells that no node listens.
func ExampleErrNotRunning() {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close() // nobody listens at its address any more

	c, err := client.New(gone.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	_, err = c.ID(context.Background())
	fmt.Println(errors.Is(err, client.ErrNotRunning), status.Of(err))
	// Output: true not_ready
}

const zeros = "0000000000000000000000000000000000000000000000000000000000000001"
