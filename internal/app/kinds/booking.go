package kinds

import (
	"sync"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/booking"
)

// ShipBookings registers bookings of nodes. The server has a room of their own for them. It may be said again.
var ShipBookings = sync.OnceFunc(func() {
	api.Register(booking.Row)
})
