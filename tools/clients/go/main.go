// Command clients uses the Go client that oapi-codegen generates: bytes of many sizes around a chunk group
// come back as they went, and a pin shows in the list.
package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"time"

	"allium/tools/clients/node"
)

const (
	group = 64 << 10
	media = "application/octet-stream"
)

func main() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "clients:", err)
		os.Exit(1)
	}
}

// run takes the URLs of the gateway and of the admin listener, a capability, and the seed of the sizes.
func run(ctx context.Context, args []string) error {
	if len(args) != 4 {
		return fmt.Errorf("usage: clients GATEWAY ADMIN TOKEN SEED")
	}
	seed, err := strconv.ParseUint(args[3], 10, 64)
	if err != nil {
		return err
	}
	bearer := node.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+args[2])
		return nil
	})
	content, err := node.NewClientWithResponses(args[0], bearer)
	if err != nil {
		return err
	}
	api, err := node.NewClientWithResponses(args[1], bearer)
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(seed, seed))
	sizes := []int{0, 1, group - 1, group, group + 1, 3*group + 7}
	for range 10 {
		sizes = append(sizes, group*(1+rng.IntN(3))+rng.IntN(33)-16)
	}
	for _, size := range sizes {
		p := make([]byte, size)
		for i := range p {
			p[i] = byte(rng.Uint32())
		}
		if err := roundTrip(ctx, content, api, p); err != nil {
			return fmt.Errorf("%d bytes: %w", size, err)
		}
	}
	fmt.Println("ok", len(sizes))
	return nil
}

// roundTrip adds p twice, gets it back, pins it and looks for the pin.
func roundTrip(ctx context.Context, content, api *node.ClientWithResponses, p []byte) error {
	stored, err := content.PostObjectWithBodyWithResponse(ctx, nil, media, bytes.NewReader(p))
	if err != nil {
		return err
	}
	here := cmp.Or(stored.JSON201, stored.JSON200)
	if here == nil {
		return fmt.Errorf("post: %s: %s", stored.Status(), stored.Body)
	}
	root := here.Root
	again, err := content.PutObjectWithBodyWithResponse(ctx, root, nil, media, bytes.NewReader(p))
	if err != nil {
		return err
	}
	if again.JSON200 == nil {
		return fmt.Errorf("put: %s: %s", again.Status(), again.Body)
	}
	if err := same(p)(content.GetObject(ctx, root, nil)); err != nil {
		return fmt.Errorf("get: %w", err)
	}
	if err := same(p)(content.Browse(ctx, root, &node.BrowseParams{})); err != nil {
		return fmt.Errorf("browse: %w", err)
	}
	pinned, err := api.AdminPinWithResponse(ctx, nil, node.AdminPinJSONRequestBody{Key: root})
	if err != nil {
		return err
	}
	if pinned.JSON200 == nil {
		return fmt.Errorf("pin: %s: %s", pinned.Status(), pinned.Body)
	}
	pins, err := api.PinsWithResponse(ctx, nil, func(_ context.Context, r *http.Request) error {
		r.Header.Set("Accept", "application/json")
		return nil
	})
	if err != nil {
		return err
	}
	if pins.JSON200 == nil {
		return fmt.Errorf("pins: %s: %s", pins.Status(), pins.Body)
	}
	for _, pin := range *pins.JSON200 {
		if pin.Root == root {
			return nil
		}
	}
	return fmt.Errorf("the pin is not in the list")
}

// same returns a function that reads an answer and compares its body with p.
func same(p []byte) func(*http.Response, error) error {
	return func(resp *http.Response, err error) error {
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		back, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK || !bytes.Equal(back, p) || resp.Request.URL.RawQuery != "" {
			return fmt.Errorf("%s, %d bytes, %v", resp.Status, len(back), err)
		}
		return nil
	}
}
