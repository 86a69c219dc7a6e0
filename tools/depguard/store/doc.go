// Package store is a fixture.
package store
