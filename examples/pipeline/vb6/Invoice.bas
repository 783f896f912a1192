Attribute VB_Name = "Invoice"
Option Explicit
' Invoices in memory: lines are added, then it is totalled, taxed and printed as text.

Private Declare Function GetTickCount Lib "kernel32" () As Long

Private Const MaxLines As Integer = 100

Public Type InvoiceLine
    Description As String
    Quantity As Long
    UnitPrice As Currency
End Type

Public CustomerName As String
Private mLines(1 To MaxLines) As InvoiceLine
Private mCount As Integer
Private mStarted As Long

' Begins an invoice: what was there before is gone.
Public Sub StartInvoice(ByVal Customer As String)
    CustomerName = Customer
    mCount = 0
    mStarted = GetTickCount()
End Sub

Public Sub AddLine(ByVal Description As String, _
                   ByVal Quantity As Long, _
                   ByVal UnitPrice As Currency)
    If mCount = MaxLines Then
        Err.Raise vbObjectError + 1, "Invoice", "An invoice has at most " & MaxLines & " lines"
    End If
    mCount = mCount + 1
    With mLines(mCount)
        .Description = Description
        .Quantity = Quantity
        .UnitPrice = UnitPrice
    End With
End Sub

Public Function Subtotal() As Currency
    Dim i As Integer
    Dim Total As Currency
    For i = 1 To mCount
        Total = Total + mLines(i).Quantity * mLines(i).UnitPrice
    Next i
    ' Large orders are cheaper.
    Select Case Total
        Case Is >= 10000: Total = Total * 0.95
        Case Is >= 1000: Total = Total * 0.98
    End Select
    Subtotal = Tax.RoundMoney(Total)
End Function

Public Function TotalWithTax(Optional ByVal Country As String = "") As Currency
    If Len(Country) = 0 Then Country = DefaultCountry
    TotalWithTax = Tax.RoundMoney(Subtotal() * (1 + RateFor(Country)))
End Function

Public Property Get LineCount() As Integer
    LineCount = mCount
End Property

Public Function InvoiceText() As String
    Dim Text As String, i As Integer
    Text = "Invoice for " & CustomerName & vbCrLf
    For i = 1 To mCount
        Text = Text & mLines(i).Quantity & " x " & mLines(i).Description & vbCrLf
    Next i
    InvoiceText = Text & "Total: " & Format$(TotalWithTax(), "0.00")
End Function

Public Function MillisecondsOpen() As Long
    MillisecondsOpen = GetTickCount() - mStarted
End Function
