# A message was moved or copied into Junk by IMAP: learn it as spam.
require ["vnd.dovecot.pipe", "copy", "imapsieve", "environment", "variables"];

if environment :matches "imap.user" "*" {
    set "user" "${1}";
}
pipe :copy "tamis-learn" ["spam", "${user}"];
