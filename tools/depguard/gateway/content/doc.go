// Package content is a fixture.
package content
