package tree

import _ "allium/store" // forbidden
