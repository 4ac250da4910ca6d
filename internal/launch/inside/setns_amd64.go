package inside

const sysSetns = 308 // the package syscall has no name for it
