package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"
	"unicode/utf8"

	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// Pin keeps an object from being removed. An object has at most one pin for
// each label.
type Pin struct {
	Root      b3.Root
	Label     string // ≤ MaxLabel bytes of UTF-8, without control characters; may be empty
	Recursive bool   // keeps what the directory Root names as well
	Created   time.Time
}

// PinOptions say how a pin holds.
type PinOptions struct {
	Recursive bool
	Label     string
}

// MaxLabel is the length of a pin's label in bytes.
const MaxLabel = 255

// maxSearch is how many directories below recursive pins one search follows.
const maxSearch = 1 << 20

// Pin adds a pin, or replaces the one with the same label, durably. The object
// must be there: not_found tells to fetch it first. A recursive pin holds
// whatever is below root as it arrives; root may be a file.
func (s *Store) Pin(ctx context.Context, root b3.Root, opt PinOptions) error {
	if err := checkLabel(opt.Label); err != nil {
		return err
	}
	if err := s.admit(ctx); err != nil {
		return err
	}
	defer s.leave()
	s.roots.acquire(root)
	defer s.roots.release(root)
	if err := s.roots.settle(ctx, root); err != nil {
		return err
	}
	_, ok, err := s.backend.get(root)
	if err != nil {
		return fmt.Errorf("store: pin %s: %w", root, err)
	}
	if !ok {
		return notFound(root)
	}
	p := Pin{Root: root, Label: opt.Label, Recursive: opt.Recursive, Created: time.Now().UTC().Truncate(time.Second)}
	if err := s.backend.setPin(p); err != nil {
		return fmt.Errorf("store: pin %s: %w", root, err)
	}
	return nil
}

// Unpin removes the pin with that label, durably; not_found when there is none.
func (s *Store) Unpin(ctx context.Context, root b3.Root, label string) error {
	if err := s.admit(ctx); err != nil {
		return err
	}
	defer s.leave()
	ok, err := s.backend.dropPin(root, label)
	if err != nil {
		return fmt.Errorf("store: unpin %s: %w", root, err)
	}
	if !ok {
		return status.Errorf(status.NotFound, "store: %s has no pin labelled %q; `allium pin ls` lists them", root, label)
	}
	return nil
}

func checkLabel(label string) error {
	if len(label) > MaxLabel {
		return status.Errorf(status.BadRequest, "store: the label has %d bytes; the limit is %d", len(label), MaxLabel)
	}
	if !utf8.ValidString(label) {
		return status.Errorf(status.BadRequest, "store: the label %q is not UTF-8", label)
	}
	for _, r := range label {
		if r < ' ' || r == 0x7f {
			return status.Errorf(status.BadRequest, "store: the label %q has a control character", label)
		}
	}
	return nil
}

// Pins yields the pins in order of address and label, a page at a time. An
// error ends it.
func (s *Store) Pins(ctx context.Context) iter.Seq2[Pin, error] {
	return func(yield func(Pin, error) bool) {
		var from b3.Root
		var label string
		buf := make([]Pin, 0, pageSize)
		for {
			page, err := s.pinPage(ctx, from, label, buf)
			if err != nil {
				yield(Pin{}, fmt.Errorf("store: list pins: %w", err))
				return
			}
			for _, p := range page {
				if !yield(p, nil) {
					return
				}
			}
			if len(page) < cap(buf) {
				return
			}
			last := page[len(page)-1]
			from, label = last.Root, last.Label+"\x00" // a label holds no NUL
		}
	}
}

func (s *Store) pinPage(ctx context.Context, from b3.Root, label string, buf []Pin) ([]Pin, error) {
	if err := s.admit(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	return s.backend.pins(from, label, buf)
}

// Pinned reports whether a pin keeps root, and which: its own, or a recursive
// one above it. It reads the directories below recursive pins until it finds
// root, each once, at most 1,048,576 of them: beyond that it is conflict.
func (s *Store) Pinned(ctx context.Context, root b3.Root) (pinned bool, why string, err error) {
	if err := s.admit(ctx); err != nil {
		return false, "", err
	}
	defer s.leave()
	why, err = s.pinned(ctx, root)
	return why != "", why, err
}

// pinned returns which pin keeps root, "" for none.
func (s *Store) pinned(ctx context.Context, root b3.Root) (why string, err error) {
	own, err := s.backend.pins(root, "", make([]Pin, 0, 1))
	if err != nil {
		return "", err
	}
	if len(own) == 1 && own[0].Root == root {
		return describe(own[0]), nil
	}
	seen := map[b3.Root]struct{}{}
	for p, err := range s.Pins(ctx) {
		if err != nil {
			return "", err
		}
		if !p.Recursive {
			continue
		}
		found, err := s.below(ctx, p.Root, root, seen)
		if err != nil {
			return "", err
		}
		if found {
			return describe(p), nil
		}
	}
	return "", nil
}

func describe(p Pin) string {
	kind := "pinned"
	if p.Recursive {
		kind = "pinned recursively"
	}
	if p.Label == "" {
		return fmt.Sprintf("%s %s", p.Root, kind)
	}
	return fmt.Sprintf("%s %s as %q", p.Root, kind, p.Label)
}

// below reports whether the directory top names root, at any depth. What is in
// seen was searched before. A node that is not here, or damaged, names nothing
// until it is fetched again.
func (s *Store) below(ctx context.Context, top, root b3.Root, seen map[b3.Root]struct{}) (bool, error) {
	todo := []b3.Root{top}
	for len(todo) > 0 {
		node := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if _, ok := seen[node]; ok {
			continue
		}
		if len(seen) == maxSearch {
			return false, status.Errorf(status.Conflict, "store: more than %d directories are below recursive pins; whether %s is one of their files cannot be told", maxSearch, root)
		}
		seen[node] = struct{}{}
		refs, err := s.refs(ctx, node)
		if err != nil {
			return false, err
		}
		for _, ref := range refs {
			if ref.Root == root {
				return true, nil
			}
			if ref.Manifest {
				todo = append(todo, ref.Root)
			}
		}
	}
	return false, nil
}

// refs reads what a manifest names; nil when root is no manifest that can be
// read.
func (s *Store) refs(ctx context.Context, root b3.Root) ([]manifest.Ref, error) {
	o, err := s.Open(ctx, root)
	if err != nil {
		return nil, unreadable(err)
	}
	defer o.Close()
	if o.Size() > manifest.MaxNode {
		return nil, nil
	}
	p := make([]byte, o.Size())
	if _, err := o.Reader().ReadAt(p, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, unreadable(o.Failed(err))
	}
	n, err := manifest.Decode(p)
	if err != nil {
		return nil, nil // a file
	}
	return n.Refs(), nil
}

// unreadable drops the errors that mean there is nothing to follow.
func unreadable(err error) error {
	switch status.Of(err) {
	case status.NotFound, status.Corrupt:
		return nil
	}
	return err
}
