# A message was moved or copied out of Junk by IMAP: learn it as ham, unless it was thrown away.
require ["vnd.dovecot.pipe", "copy", "imapsieve", "environment", "variables", "special-use"];

if environment :matches "imap.mailbox" "*" {
    set "mailbox" "${1}";
}
if anyof (
    specialuse_exists "${mailbox}" "\\Trash",
    specialuse_exists "${mailbox}" "\\Junk",
    string :is "${mailbox}" ["Trash", "Junk"]
) {
    stop;
}
if environment :matches "imap.user" "*" {
    set "user" "${1}";
}
pipe :copy "tamis-learn" ["ham", "${user}"];
