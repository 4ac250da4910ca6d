// Package way judges by which network the machines of a gang reach each other, and which of them only encrypted.
//
// Place: layer 4, a part of placing work on machines, for all kinds of work. Promise: a gang over two zones whose way is to be encrypted begins only where both
// ends of each such way can do it. Enemies: a member on a machine without an agent; a network that only some zones name.
package way
