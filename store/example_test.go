package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"allium/store"
)

// Example opens a store in a new directory, adds an object, reads it, pins it and
// closes the store.
func Example() {
	dir, err := os.MkdirTemp("", "store")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	cfg := store.DefaultConfig()
	cfg.Dir = dir
	s, err := store.New(cfg, store.Deps{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	ready, closed := make(chan struct{}), make(chan error, 1)
	go func() { closed <- s.Run(ctx, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-closed: // the store cannot be opened
		stop()
		fmt.Println(err)
		return
	}

	if err := useStore(ctx, s); err != nil {
		fmt.Println(err)
	}

	stop()
	fmt.Println("closed:", <-closed)
	// Output:
	// b3:d74981efa70a0c880b8d8c1985d075dbcbf679b99a5f9914e5aaf96b831a9e24 has 11 bytes, new: true
	// hello world
	// pinned: true
	// closed: <nil>
}

func useStore(ctx context.Context, s *store.Store) error {
	info, err := s.PutBytes(ctx, []byte("hello world"), store.PutOptions{})
	if err != nil {
		return err
	}
	fmt.Printf("%s has %d bytes, new: %t\n", info.Root, info.Size, info.New)

	o, err := s.Open(ctx, info.Root)
	if err != nil {
		return err
	}
	defer o.Close()
	p := make([]byte, o.Size())
	if _, err := o.Reader().ReadAt(p, 0); err != nil && !errors.Is(err, io.EOF) {
		return o.Failed(err) // marks the object if its bytes are damaged
	}
	fmt.Printf("%s\n", p)

	if err := s.Pin(ctx, info.Root, store.PinOptions{Label: "demo"}); err != nil {
		return err
	}
	pinned, _, err := s.Pinned(ctx, info.Root)
	if err != nil {
		return err
	}
	fmt.Println("pinned:", pinned)
	return nil
}
