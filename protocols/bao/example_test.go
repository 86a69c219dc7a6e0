package bao_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"allium/protocols/b3"
	"allium/protocols/bao"
)

// A gateway encodes a range of an object. A client that knows the address decodes
// and verifies it.
func Example() {
	data := bytes.Repeat([]byte("0123456789"), 20_000)
	var outboard bytes.Buffer
	h := b3.NewHasher(&outboard, 1)
	_, _ = h.Write(data) // a bytes.Buffer never fails
	root, size, _ := h.Sum()
	stored := b3.FileSource(bytes.NewReader(data), bytes.NewReader(outboard.Bytes()), size)

	r := b3.Range{Start: 100_003, End: 100_010}
	encoder, err := bao.NewEncoder(b3.NewReader(root, size, stored), r)
	if err != nil {
		fmt.Println(err)
		return
	}
	var answer bytes.Buffer
	n, err := encoder.WriteTo(&answer)
	length, _ := bao.Len(size, r)
	fmt.Println(n == length, err)

	damaged := bytes.Clone(answer.Bytes())
	damaged[len(damaged)-1] ^= 1

	decoder := bao.NewDecoder(root, r, &answer)
	defer decoder.Close()
	part, err := io.ReadAll(decoder)
	fmt.Printf("%s %v\n", part, err)

	decoder = bao.NewDecoder(root, r, bytes.NewReader(damaged))
	defer decoder.Close()
	part, err = io.ReadAll(decoder)
	fmt.Printf("%q %v\n", part, errors.Is(err, b3.ErrCorrupt))
	// Output:
	// true <nil>
	// 3456789 <nil>
	// "" true
}
