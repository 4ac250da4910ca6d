package agency

import "net"

// FirstAddress is the machine's first that is neither a loopback nor only good on one wire; "": it has none.
func FirstAddress() string {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return ""
	}
	six := ""
	for _, a := range list {
		n, ok := a.(*net.IPNet)
		if !ok || !n.IP.IsGlobalUnicast() {
			continue
		}
		if n.IP.To4() != nil {
			return n.IP.String()
		}
		if six == "" {
			six = n.IP.String()
		}
	}
	return six
}

// AddressTo is the machine's own by which it reaches a server; "": it is not known.
func AddressTo(server string) string {
	conn, err := net.Dial("udp", server) // sends nothing
	if err != nil {
		return ""
	}
	defer conn.Close()
	if a, ok := conn.LocalAddr().(*net.UDPAddr); ok && !a.IP.IsLoopback() {
		return a.IP.String()
	}
	return ""
}
