package bell

func Ring(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
