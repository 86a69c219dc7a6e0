package content

import _ "allium/store" // forbidden
