// Package tree is a fixture.
package tree
