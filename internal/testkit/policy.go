package testkit

import (
	"html"
	"regexp"
	"strings"
	"testing"
)

var (
	styleSheet = regexp.MustCompile(`(?s)<style>(.*?)</style>`)
	ownScript  = regexp.MustCompile(`<script src="[^"]*" integrity="([^"]*)" defer></script>`)
	ownCode    = regexp.MustCompile(` (style|on[a-z]+)="`)
	elsewhere  = regexp.MustCompile(`(src|href)="(https?:)?//`)
)

// CheckPolicy holds a page with one script and two style sheets against its Content-Security-Policy: the policy has
// the digest of each, as digest makes it, and lets nothing else run.
func CheckPolicy(t *testing.T, page, policy string, digest func(text string) string) {
	t.Helper()
	styles, scripts := styleSheet.FindAllStringSubmatch(page, -1), ownScript.FindAllStringSubmatch(page, -1)
	if len(styles) != 2 || len(scripts) != 1 || strings.Count(page, "<script") != 1 {
		t.Fatalf("the page has %d style sheets and %d scripts", len(styles), len(scripts))
	}
	for _, s := range styles {
		if !strings.Contains(policy, "'"+digest(s[1])+"'") {
			t.Errorf("the policy lacks the digest of the style sheet %.60q", s[1])
		}
	}
	if !strings.Contains(policy, "script-src '"+html.UnescapeString(scripts[0][1])+"';") {
		t.Errorf("%s is not the one script of %s", scripts[0][1], policy)
	}
	for _, bad := range []string{"unsafe", "blob:", "data:", "*", "http"} {
		if strings.Contains(policy, bad) {
			t.Errorf("the policy %s has %s", policy, bad)
		}
	}
	if bad := ownCode.FindString(page); bad != "" {
		t.Errorf("the page has the attribute %s", bad)
	}
}

// CheckAlone holds a page and its policy to what a page of the node keeps: it loads and links nothing from elsewhere,
// is in no frame, and makes scripts of the trusted types alone that are named.
func CheckAlone(t *testing.T, page, policy, trusted string) {
	t.Helper()
	for _, want := range []string{
		"default-src 'none';", "frame-ancestors 'none'", "require-trusted-types-for 'script'",
		"trusted-types " + trusted,
	} {
		if !strings.Contains(policy, want) {
			t.Errorf("the policy %s lacks %s", policy, want)
		}
	}
	if bad := elsewhere.FindString(page); bad != "" {
		t.Errorf("the page has %s", bad)
	}
}
