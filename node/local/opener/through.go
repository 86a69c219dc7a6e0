package opener

import (
	"bytes"
	"context"
	"errors"
	"io"

	"allium/gateway/content"
	"allium/gateway/verified"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// Through opens objects behind a gateway that need not be trusted: this process verifies
// every chunk group.
type Through struct{ Gateway *verified.Gateway }

// Open implements content.Opener. If the object is opened whole, its size is only a claim
// of the gateway until Copy has read to the end. Copy fails if the claim is false. Open
// reads an object of at most one group completely.
func (o Through) Open(ctx context.Context, root b3.Root, opt content.OpenOptions) (content.Content, error) {
	ctx, cancel := context.WithCancel(ctx)
	c := &gatewayContent{g: o.Gateway, root: root, cancel: cancel}
	var err error
	if opt.Whole {
		err = c.begin(ctx)
	} else {
		err = c.measure(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// gatewayContent implements content.Content for an object that a gateway sends. One
// goroutine uses it at a time.
type gatewayContent struct {
	g      *verified.Gateway
	root   b3.Root
	cancel context.CancelFunc // ends rest
	size   int64
	head   []byte             // the first bytes, verified, at most a group
	rest   *verified.Download // the bytes after head; nil if there are none or they were read
}

// begin requests the whole object and reads its first group into head.
func (c *gatewayContent) begin(ctx context.Context) (err error) {
	if c.rest, err = c.g.Get(ctx, c.root, b3.Range{End: -1}); err != nil {
		return err
	}
	c.size, _ = c.rest.Size()
	c.head = make([]byte, min(c.size, b3.GroupSize))
	if _, err := io.ReadFull(c.rest, c.head); err != nil || c.size > b3.GroupSize {
		return err
	}
	return c.drain(io.Discard)
}

// measure requests the last group's worth of bytes, which prove the size. If they are the
// whole object, it keeps them as head.
func (c *gatewayContent) measure(ctx context.Context) (err error) {
	if c.rest, err = c.g.Get(ctx, c.root, b3.Range{Start: -b3.GroupSize, End: -1}); err != nil {
		return err
	}
	var tail bytes.Buffer
	if err := c.drain(&tail); err != nil {
		return err
	}
	if c.size <= int64(tail.Len()) {
		c.head = tail.Bytes()
	}
	return nil
}

// drain writes rest to w, closes it and notes the proved size.
func (c *gatewayContent) drain(w io.Writer) error {
	rest := c.rest
	c.rest = nil
	defer rest.Close()
	_, err := rest.WriteTo(w)
	c.size, _ = rest.Size()
	return err
}

func (c *gatewayContent) Size() int64 { return c.size }

// Close ends a download that still runs.
func (c *gatewayContent) Close() error {
	c.cancel()
	if c.rest != nil {
		return c.rest.Close()
	}
	return nil
}

// Copy implements content.Content.
func (c *gatewayContent) Copy(ctx context.Context, w io.Writer, start, end int64) error {
	w = &writerCtx{ctx: ctx, w: w}
	err := func() error {
		if end <= int64(len(c.head)) {
			_, err := w.Write(c.head[start:end])
			return err
		}
		if c.rest == nil || start > 0 || end < c.size {
			d, err := c.g.Get(ctx, c.root, b3.Range{Start: start, End: end})
			if err != nil {
				return err
			}
			defer d.Close()
			_, err = d.WriteTo(w)
			return err
		}
		defer context.AfterFunc(ctx, c.cancel)()
		if _, err := w.Write(c.head); err != nil {
			return err
		}
		return c.drain(w)
	}()
	var we writeError
	if errors.As(err, &we) {
		return we.err
	}
	return err
}

// Encode implements content.Content. It always fails with status.Unsupported.
func (c *gatewayContent) Encode(context.Context, io.Writer, int64, int64) error {
	return status.Errorf(status.Unsupported, "this node cannot encode %s, which it gets from a gateway; "+
		"request the encoding from that gateway", c.root)
}
