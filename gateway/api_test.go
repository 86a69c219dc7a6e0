package gateway

type fakeNode struct{ Node }
