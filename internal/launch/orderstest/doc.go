// Package orderstest is what every adapter of a launcher's orders (launch.Orders) must do.
//
// Place: layer 4, for tests. Promise: an adapter that passes can carry a launcher. Enemies: an adapter that is nearly right.
package orderstest
