package pages

import (
	"io"
	"testing"

	"allium/gateway/exchange"
)

// TestPagesAfterAProblem: the first page of a node may be that of an error, after which its templates cannot be cloned.
func TestPagesAfterAProblem(t *testing.T) {
	if err := exchange.PageTemplates().ExecuteTemplate(io.Discard, "upload", exchange.Frame{}); err != nil {
		t.Fatal(err)
	}
	if err := templates().ExecuteTemplate(io.Discard, "foot", &Listing{}); err != nil {
		t.Fatal(err)
	}
}
