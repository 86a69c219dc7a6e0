package object

import (
	"context"
	"slices"

	"allium/protocols/b3"
	"allium/protocols/oap"
	"allium/protocols/status"
)

// object sends one object of a get, without its status. It returns the error for the
// status, or a *streamError.
func (in *served) object(ctx context.Context, req *request, root b3.Root) error {
	obj, err := in.srv.deps.Store.OpenObject(ctx, root)
	if err != nil {
		return err
	}
	defer func() {
		if err := obj.Close(); err != nil {
			in.srv.log.Warn("cannot close an object", "obj", root, "err", err)
		}
	}()
	reader, size := obj.Reader(), obj.Size()
	if size > MaxObject {
		return status.Errorf(status.Internal, "%s has %d bytes, more than the protocol allows", root, size)
	}
	walk, err := reader.Walk(req.ranges)
	if err != nil {
		return err
	}
	if err := covered(obj, req, root); err != nil {
		return err
	}
	if err := in.out.reserve(ctx); err != nil {
		return err
	}
	in.scratch = appendStart(in.scratch[:0], root, size)
	if err := in.out.frame(respond(req.corr, oap.FlagStart, 0, in.scratch)); err != nil {
		return err
	}
	in.given = in.given[:0]
	defer in.tellSent(root, size)
	if req.sizeProof {
		proof, err := reader.SizeProof()
		if err != nil {
			return err
		}
		if err := in.items(ctx, req, reader, proof, true); err != nil {
			return failed(obj, err)
		}
	}
	return failed(obj, in.items(ctx, req, reader, walk, false))
}

// give notes that a group of an object of size bytes is in the next frame. The groups come in order.
func (in *served) give(group, size int64) {
	r := b3.Range{Start: group * b3.GroupSize, End: min((group+1)*b3.GroupSize, size)}
	if n := len(in.given); n > 0 && in.given[n-1].End == r.Start {
		in.given[n-1].End = r.End
		return
	}
	in.given = append(in.given, r)
}

// tellSent reports what was sent of an object.
func (in *served) tellSent(root b3.Root, size int64) {
	if in.srv.deps.Sent != nil && len(in.given) > 0 {
		in.srv.deps.Sent(in.st.Conn(), root, size, in.given)
	}
}

// failed reports an error of a transfer to obj, except an error of the stream.
func failed(obj Object, err error) error {
	if err == nil || isStreamError(err) {
		return err
	}
	return obj.Failed(err)
}

// covered returns not_found unless obj has all requested bytes.
func covered(obj Object, req *request, root b3.Root) error {
	size := obj.Size()
	ranges := req.ranges
	if len(ranges) == 0 {
		ranges = []b3.Range{{Start: 0, End: size}}
	}
	if req.sizeProof && size > 0 {
		ranges = append(slices.Clip(ranges), b3.Range{Start: size - 1, End: size})
	}
	for _, r := range ranges {
		end := r.End
		if end < 0 || end > size {
			end = size
		}
		if r.Start < end && !obj.Covers(r.Start, end) {
			return status.Errorf(status.NotFound, "the node has only a part of %s, without all bytes from %d to %d",
				root, r.Start, end)
		}
	}
	return nil
}

// items sends the items of the walk in as few frames as possible. It reads an item
// into the frame and commits it only after verification. If an item is bad, items
// still sends the verified items before it, unless all have to be in one frame.
func (in *served) items(ctx context.Context, req *request, from *b3.Reader, walk *b3.Walk, one bool) error {
	out := in.out
	header := respond(req.corr, 0, 0, nil).Header
	item, ok := walk.Next()
	for frames := 1; ok; frames++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if frames%framesPerFlush == 0 {
			if err := out.flush(); err != nil {
				return err
			}
		}
		if err := out.reserve(ctx); err != nil {
			return err
		}
		b := out.builder
		b.Reset(header)
		var bad error
		committed := 0
		for ok && item.Len <= b.Available() {
			if _, bad = from.Fill(walk, b.Next(item.Len)); bad != nil {
				break
			}
			b.Commit(item.Len)
			committed++
			if in.srv.deps.Sent != nil && !item.Parent {
				in.give(item.Group, from.Size())
			}
			item, ok = walk.Next()
		}
		if committed > 0 && (bad == nil || !one) {
			if err := in.limitRate(ctx, len(b.Payload())); err != nil {
				return err
			}
			if err := out.frames.WriteBuilder(b); err != nil {
				in.given = in.given[:0] // how much arrived is not known
				return err
			}
			in.srv.metrics.bytesOut.Add(float64(len(b.Payload())))
		}
		if bad != nil {
			return bad
		}
	}
	return nil
}

// limitRate waits until n bytes of items may be sent at the upload rate, at most
// PermitWait. It first sends the batched frames, so that the peer sees progress.
func (in *served) limitRate(ctx context.Context, n int) error {
	up := in.srv.deps.Upload
	if !up.Bounds(in.near) {
		return nil
	}
	if err := in.out.writeBatch(); err != nil {
		return err
	}
	return up.Wait(ctx, bandwidthKey(in.from), in.near, n, in.out.cfg.PermitWait)
}

// framesPerFlush is the number of frames that a stream sends before it releases its buffers, so
// that other streams that wait for egress bytes can continue.
const framesPerFlush = 64

// respond returns a response frame.
func respond(corr uint64, flags oap.Flags, code uint16, payload []byte) oap.Frame {
	return oap.Frame{
		Header:  oap.Header{Flags: oap.FlagResp | flags, Code: code, Proto: oap.ProtoObject, CorrID: corr},
		Payload: payload,
	}
}
