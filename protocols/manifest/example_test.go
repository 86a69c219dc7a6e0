package manifest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"allium/protocols/b3"
	"allium/protocols/manifest"
)

// A Builder writes a directory to a store. Lookup and Walk read it again by its
// address.
func Example() {
	ctx := context.Background()
	store := map[b3.Root][]byte{}
	put := func(_ context.Context, p []byte) (b3.Root, error) {
		root := b3.Sum(p)
		store[root] = bytes.Clone(p)
		return root, nil
	}
	get := func(_ context.Context, root b3.Root) ([]byte, error) {
		p, ok := store[root]
		if !ok {
			return nil, errors.New("no such object")
		}
		return p, nil
	}

	text := []byte("hello\n")
	docs := manifest.NewBuilder(put)
	if err := docs.Add(ctx, manifest.Entry{Name: "hello.txt", Root: b3.Sum(text), Size: int64(len(text))}); err != nil {
		fmt.Println(err)
	}
	docsRoot, docsSize, _ := docs.Close(ctx)

	top := manifest.NewBuilder(put)
	entries := []manifest.Entry{
		{Name: "docs", Kind: manifest.Directory, Root: docsRoot, Size: docsSize},
		{Name: "latest", Kind: manifest.Link, Target: "docs"},
		{Name: "../escape", Kind: manifest.Link, Target: "/"},
	}
	for _, e := range entries {
		if err := top.Add(ctx, e); err != nil {
			fmt.Println(err) // the Builder continues without the entry
		}
	}
	root, size, err := top.Close(ctx)
	fmt.Println(root == b3.Sum(store[root]), size == int64(len(store[root])), err)

	err = manifest.Walk(ctx, get, root, func(path string, e manifest.Entry) error {
		fmt.Printf("%s %q %q\n", e.Kind, path, e.Target)
		return nil
	})
	fmt.Println(err)
	e, err := manifest.Lookup(ctx, get, root, "docs/hello.txt")
	fmt.Println(e.Name, e.Size, err)
	_, err = manifest.Lookup(ctx, get, root, "docs/missing")
	fmt.Println(err)
	// Output:
	// entry "../escape": the name contains a slash or a NUL
	// true true <nil>
	// directory "docs" ""
	// file "docs/hello.txt" ""
	// link "latest" "docs"
	// <nil>
	// hello.txt 6 <nil>
	// entry "docs/missing": not found
}
