package b3_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"allium/protocols/b3"
)

func ExampleSum() {
	root := b3.Sum([]byte("hello\n"))
	fmt.Println(root)
	fmt.Println(root.CID())
	// Output:
	// b3:8e4c7c1b99dbfd50e7a95185fead5ee1448fa904a2fdd778eaf5f2dbfd629a99
	// bafkr4ieojr6bxgo37viopkkrqx7k2xxbish2sbfc7xlxr2xv6ln72yu2te
}

func ExampleParse() {
	_, err := b3.Parse("b3:8e4c7c1b99dbfd")
	fmt.Println(err)
	var bad *b3.AddressError
	fmt.Println(errors.As(err, &bad), bad.Problem == b3.TooShort, bad.Digits)
	// Output:
	// "b3:8e4c7c1b99dbfd" is not an address: it is too short (14 of 64 hex digits)
	// true true 14
}

// A Hasher writes the outboard of a stream. A Reader needs it to verify a part of
// the object.
func ExampleHasher() {
	data := bytes.Repeat([]byte("All work and no play. "), 10_000)
	var outboard bytes.Buffer
	h := b3.NewHasher(&outboard, 1)
	if _, err := h.Write(data); err != nil {
		fmt.Println(err)
	}
	root, size, err := h.Sum()
	fmt.Println(root == b3.Sum(data), size, outboard.Len(), err)

	stored := b3.FileSource(bytes.NewReader(data), bytes.NewReader(outboard.Bytes()), size)
	section := b3.NewReader(root, size, stored).Section(110_000, 110_021)
	defer section.Close()
	_, err = section.WriteTo(os.Stdout)
	fmt.Println("", err)

	data[110_000] = 'a' // damage
	_, err = b3.NewReader(root, size, stored).ReadGroup(1, make([]byte, b3.GroupSize))
	fmt.Println(errors.Is(err, b3.ErrCorrupt))
	// Output:
	// true 220000 192 <nil>
	// All work and no play. <nil>
	// true
}

// A sender and a receiver make the same walk. The receiver accepts only bytes that
// hash to the root.
func ExampleWalk() {
	data := bytes.Repeat([]byte{7}, 3*b3.GroupSize)
	var outboard bytes.Buffer
	h := b3.NewHasher(&outboard, 1)
	_, _ = h.Write(data) // a bytes.Buffer never fails
	root, size, _ := h.Sum()
	stored := b3.FileSource(bytes.NewReader(data), bytes.NewReader(outboard.Bytes()), size)

	ranges := []b3.Range{{Start: b3.GroupSize, End: b3.GroupSize + 10}}
	send, _ := b3.NewWalk(root, size, ranges)
	receive, _ := b3.NewWalk(root, size, ranges)
	buf := make([]byte, b3.GroupSize)
	for item, more := send.Next(); more; item, more = send.Next() {
		sent, err := send.Fill(stored, buf)
		if err != nil {
			fmt.Println(err)
			return
		}
		proved, err := receive.Accept(sent.Data())
		fmt.Println(item, len(proved.Data()), err)
	}
	// Output:
	// parent 1 64 <nil>
	// parent 0 64 <nil>
	// group 1 65536 <nil>
}
